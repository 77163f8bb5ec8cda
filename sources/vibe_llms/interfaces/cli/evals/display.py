"""Tables and remarks about reports of evals."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from vibe_llms.foundation.money import write_dollars
from vibe_llms.interfaces.cli.output import note, write, write_count, write_table

if TYPE_CHECKING:
    from vibe_llms.evals.comparing import CaseDifference, EvalComparison
    from vibe_llms.evals.costs import EvalForecast
    from vibe_llms.evals.reports import EvalReport, SubjectSummary
    from vibe_llms.evals.statistics import PassRate
    from vibe_llms.evals.trials import Trial

_ROWS: Final = 50
"""Number of cases that a table lists."""

_STATE_STYLES: Final = {"failed": "red", "error": "yellow", "untried": "dim"}
_CHANGE_STYLES: Final = {
    "worse": "red",
    "better": "green",
    "new": "cyan",
    "gone": "dim",
    "untried": "dim",
}


def describe_forecast(forecast: EvalForecast) -> str:
    """Describe the cost of a run before anything is sent."""
    from vibe_llms.evals.costs import EXPECTED_OUTPUT_TOKENS

    parts = [f"{write_count(forecast.trials, 'trial')}"]
    if forecast.cached:
        parts.append(f"{write_count(forecast.cached, 'answer')} cached")
    parts.append(write_count(forecast.requests, "request"))
    if forecast.dollars:
        parts.append(f"about {write_dollars(forecast.dollars)}")
        if forecast.judging:
            parts.append(f"of which {write_dollars(forecast.judging)} for judges")
        parts.append(
            f"assuming up to {EXPECTED_OUTPUT_TOKENS:,} tokens for each answer and verdict"
        )
    elif not forecast.unpriced:
        parts.append("no cost")
    if forecast.unpriced:
        parts.append(f"unknown price: {', '.join(forecast.unpriced)}")
    return ", ".join(parts) + "."


def warn_of_cap(forecast: EvalForecast, cap: Decimal) -> Iterator[str]:
    """Yield what the cap will not allow, before anything is sent."""
    limit = write_dollars(cap)
    for noun, dear in (
        ("An answer", forecast.dear_subjects),
        ("A verdict", forecast.dear_judges),
    ):
        for name, amount in dear.items():
            yield (
                f"{noun} of {name!r} may cost up to {write_dollars(amount)}, more than the cap of "
                f"{limit}, so that it is not asked for. Set max_tokens, or raise the cap."
            )
    if forecast.judging > cap:
        yield (
            f"The judges alone will cost about {write_dollars(forecast.judging)}, more than the "
            f"cap of {limit}: some answers will not be judged. Raise the cap, or select cases."
        )
    elif forecast.dollars > cap:
        yield (
            f"The cap of {limit} is lower than the estimate: some trials will not be tried. Raise "
            "it, or select cases."
        )


def show_report(report: EvalReport) -> None:
    """Show the subjects, the cases that did not pass, and the agreement of judges."""
    from vibe_llms.evals.statistics import PassRate

    summaries = report.summarize()
    minimum = report.thresholds.pass_rate
    write_table(
        [_compose_subject(each) for each in summaries],
        headers=("subject", "passed", "share", "95 %", "errors", "seconds", "cost"),
        row_styles=["green" if each.rate.share >= minimum else "red" for each in summaries],
    )
    groups: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in report.trials:
        groups[trial.case, trial.subject].append(trial)
    rows: list[tuple[str, ...]] = []
    styles: list[str] = []
    for (case, subject), trials in groups.items():
        bad = _find_bad(trials, is_given=subject not in report.subjects)
        if bad is not None:
            passed = sum(each.state == "passed" for each in trials)
            rate = PassRate(passed=passed, total=len(trials))
            rows.append((str(bad.state), case, subject, _write_rate(rate), bad.reason))
            styles.append(_STATE_STYLES[bad.state])
    if rows:
        _separate()
        write_table(
            rows[:_ROWS],
            headers=("state", "case", "subject", "passed", "reason"),
            row_styles=styles[:_ROWS],
        )
    sys.stdout.flush()  # remarks follow the tables, also in a pipe that both share
    if len(rows) > _ROWS:
        note(f"{len(rows) - _ROWS:,} more cases did not pass; --json and --html list all.")
    _show_agreements(report)


def _find_bad(trials: Iterable[Trial], *, is_given: bool) -> Trial | None:
    """Return the first trial that has not passed; a given answer may be bad on purpose."""
    good_states = ("passed", "failed") if is_given else ("passed",)
    return next((each for each in trials if each.state not in good_states), None)


def _separate() -> None:
    """Write an empty line between tables on a terminal."""
    if sys.stdout.isatty():
        write()


def _compose_subject(summary: SubjectSummary) -> tuple[str, ...]:
    low, high = summary.rate.interval
    seconds = "" if summary.seconds is None else f"{summary.seconds:.1f}"
    return (
        summary.subject,
        _write_rate(summary.rate),
        f"{summary.rate.share:.0%}" if summary.rate.total else "",
        f"{low:.0%} to {high:.0%}" if summary.rate.total else "",
        str(summary.errors or ""),
        seconds,
        write_dollars(summary.cost) if summary.cost else "",
    )


def _write_rate(rate: PassRate) -> str:
    return f"{rate.passed:,}/{rate.total:,}"


def _show_agreements(report: EvalReport) -> None:
    for agreement in report.measure_agreements():
        warning = agreement.is_below(report.thresholds.agreement)
        note(f"{'Warning: ' if warning else ''}{agreement.describe()}")
        if warning:
            note(
                f"         It is below {report.thresholds.agreement:g}: do not rely on its "
                "verdicts before its question or its model is better."
            )


def show_comparison(comparison: EvalComparison) -> None:
    """Show the cases that changed, regressions first."""
    changed = [each for each in comparison.differences if each.change != "same"]
    changed.sort(key=lambda each: not each.is_regression)
    if changed:
        _separate()
        write_table(
            [_compose_difference(each) for each in changed[:_ROWS]],
            headers=("change", "case", "subject", "before", "now", "reason"),
            row_styles=[_CHANGE_STYLES[each.change] for each in changed[:_ROWS]],
        )
    sys.stdout.flush()
    if len(changed) > _ROWS:
        note(f"{len(changed) - _ROWS:,} more cases changed; --json and --html list all.")
    counts: dict[str, int] = defaultdict(int)
    for each in comparison.differences:
        counts[str(each.change)] += 1
    words = ", ".join(
        f"{counts[name]:,} {name}" for name in (*_CHANGE_STYLES, "same") if counts[name]
    )
    note(f"Compared with the earlier report: {words or 'nothing in common'}.")


def _compose_difference(difference: CaseDifference) -> tuple[str, ...]:
    later = difference.later
    reason = "" if later is None else later.reason
    edited = "The prompt differs. " if difference.is_edited else ""
    return (
        str(difference.change),
        difference.case,
        difference.subject,
        _write_rate(difference.before) if difference.before.total else "",
        _write_rate(difference.now) if difference.now.total else "",
        edited + reason,
    )
