"""Self-contained HTML page of a report, or of the differences between two reports.

All texts are escaped in Python. A content security policy lists the digests of the style sheet and
of the script, so that no other script runs, and forbids all requests. The page can be read without
scripts; the script filters the cases.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from vibe_llms.conversations.exchange.labels import describe_moment
from vibe_llms.conversations.exchange.pages import (
    compose_facts,
    compose_page,
    compose_source,
    read_style,
)
from vibe_llms.conversations.lineage.differences import compare_words
from vibe_llms.evals.comparing import (
    CaseDifference,
    EvalChange,
    EvalComparison,
    compare_reports,
)
from vibe_llms.evals.reports import CaseRecord, EvalReport
from vibe_llms.evals.statistics import Agreement, PassRate
from vibe_llms.evals.trials import JudgeVerdict, Trial, TrialState
from vibe_llms.flows.pages import compose_mark, compose_table, read_part
from vibe_llms.foundation.money import write_dollars
from vibe_llms.foundation.package_data import access_data
from vibe_llms.foundation.reprs import escape

CASES_LIMIT: Final = 1_000
"""Number of cases with their answers; others are only counted."""

_TEXT_LIMIT: Final = 20_000
"""Number of characters to which answers and prompts are cut."""

_DIFF_LIMIT: Final = 2_000_000
"""Number of characters of all answers that are compared word by word."""

_OTHERS_LIMIT: Final = 20
"""Number of further answers that a case shows."""

_STATE_MARKS: Final = {
    TrialState.PASSED: ("done", "✓ passed"),
    TrialState.FAILED: ("failed", "✗ failed"),
    TrialState.ERROR: ("waiting", "! error"),
    TrialState.UNTRIED: ("unreached", "not tried"),
}
_CHANGE_MARKS: Final = {
    EvalChange.WORSE: ("failed", "↓ worse"),
    EvalChange.BETTER: ("done", "↑ better"),
    EvalChange.NEW: ("changed", "+ new"),
    EvalChange.GONE: ("removed", "- gone"),
    EvalChange.UNTRIED: ("unreached", "not tried"),
}
_ORDER: Final = tuple(_CHANGE_MARKS)


def compose_report_page(report: EvalReport, earlier: EvalReport | None = None) -> str:
    """Write the page of a report, to be encoded as UTF-8.

    Args:
        earlier: Report to compare it with; its answers are shown beside those of this one.
    """
    script = _read_script()
    body = _ReportPage(report, earlier).compose(script)
    style = _read_styles()
    policy = (
        f"default-src 'none'; style-src {compose_source(style)}; "
        f"script-src {compose_source(script)}; base-uri 'none'; form-action 'none'"
    )
    return compose_page(body, title=f"Eval of {report.suite}", policy=policy, style=style)


@functools.cache
def _read_styles() -> str:
    own = access_data("evals", "page.css").read_text(encoding="utf-8")
    return read_style() + read_part("page.css") + own


@functools.cache
def _read_script() -> str:
    return access_data("evals", "page.js").read_text(encoding="utf-8")


class _ReportPage:
    """Composer of the page of a report."""

    def __init__(self, report: EvalReport, earlier: EvalReport | None) -> None:
        self.report = report
        self.earlier = earlier
        # Without an earlier report, each case is compared with itself, so that one list is enough.
        self.comparison: EvalComparison = compare_reports(earlier or report, report)
        self.records = {each.name: each for each in (*(earlier or report).cases, *report.cases)}
        self.trials = _group(report)
        self.earlier_trials = {} if earlier is None else _group(earlier)
        self._diff_left = _DIFF_LIMIT

    def compose(self, script: str) -> str:
        differences = sorted(self.comparison.differences, key=self._rank)
        shown = differences[:CASES_LIMIT]
        left_out = len(differences) - len(shown)
        return _BODY.format(
            title=escape(f"Eval of {self.report.suite}"),
            mark=self._compose_mark(),
            facts=compose_facts(self._survey_facts()),
            subjects=self._compose_subjects(),
            judges=self._compose_judges(),
            options="".join(
                f'<option value="{kind}">{words}</option>' for kind, words in self._survey_kinds()
            ),
            cases="\n".join(self._compose_case(n, each) for n, each in enumerate(shown)),
            left_out=f'<p class="empty">{left_out:,} more cases are not on this page; the JSON '
            "report has all.</p>"
            if left_out
            else "",
            script=script,
        )

    def _rank(self, difference: CaseDifference) -> tuple[int, int]:
        change = difference.change
        rank = _ORDER.index(change) if change in _ORDER and self.earlier is not None else 9
        return 0 if difference.is_regression else 1 + rank, int(_is_good(difference))

    def _compose_mark(self) -> str:
        count = len(self.comparison.regressions)
        if count:
            noun = "regression" if count == 1 else "regressions"
            return compose_mark("failed", f"✗ {count:,} {noun}")
        if self.report.holds:
            return compose_mark("done", "✓ holds")
        return compose_mark("failed", "✗ does not hold")

    def _survey_facts(self) -> dict[str, str | None]:
        report, earlier = self.report, self.earlier
        return {
            "Created": _write_moment(report.created),
            "Compared with": None if earlier is None else _write_moment(earlier.created),
            "Trials": f"{len(report.trials):,}",
            "Not tried": f"{report.untried:,}" if report.untried else None,
            "Cost": write_dollars(report.cost),
            "Unknown cost": f"{report.unpriced:,} requests" if report.unpriced else None,
            "Version": report.version,
        }

    def _compose_subjects(self) -> str:
        before = (
            {}
            if self.earlier is None
            else {each.subject: each.rate for each in self.earlier.summarize()}
        )
        rows = []
        minimum = self.report.thresholds.pass_rate
        for each in self.report.summarize():
            low, high = each.rate.interval
            is_good = each.rate.share >= minimum
            cells = (
                f"<bdi>{escape(each.subject)}</bdi>",
                compose_mark("done" if is_good else "failed", f"{each.rate.share:.0%}"),
                f"{each.rate.passed:,}/{each.rate.total:,}",
                f"{low:.0%} to {high:.0%}",
                f"{before[each.subject].share:.0%}" if each.subject in before else "",
                f"{each.errors:,}" if each.errors else "",
                "" if each.seconds is None else f"{each.seconds:.1f} s",
                write_dollars(each.cost) if each.cost else "",
            )
            rows.append(("", cells))
        heads = {
            "Subject": False,
            "Share": False,
            "Passed": True,
            "95 %": True,
            "Before": True,
            "Errors": True,
            "Time": True,
            "Cost": True,
        }
        return compose_table("subjects", "Subjects", heads, rows) if rows else ""

    def _compose_judges(self) -> str:
        agreements = self.report.measure_agreements()
        if not agreements:
            return ""
        minimum = self.report.thresholds.agreement
        items = "\n".join(_compose_agreement(each, minimum) for each in agreements)
        return (
            '<section class="wide judges"><h2>Agreement of the judges</h2>\n'
            f"<ul>{items}</ul></section>"
        )

    def _survey_kinds(self) -> Iterator[tuple[str, str]]:
        yield "", "All cases"
        if self.earlier is not None:
            yield "regression", "Regressions"
            for change in _ORDER:
                yield f"change-{change}", _CHANGE_MARKS[change][1].lstrip("↓↑+- ").capitalize()
        for state in TrialState:
            yield f"state-{state}", f"With trials: {_STATE_MARKS[state][1].lstrip('✓✗! ')}"

    def _compose_case(self, number: int, difference: CaseDifference) -> str:
        key = (difference.case, difference.subject)
        trials = self.trials.get(key, [])
        kinds = dict.fromkeys(f"state-{each.state}" for each in trials)
        kinds[f"change-{difference.change}"] = None
        if difference.is_regression:
            kinds["regression"] = None
        record = self.records.get(difference.case, CaseRecord(name=difference.case))
        body = "\n".join(self._compose_body(difference, record, trials))
        return (
            f'<details class="case" id="case-{number}" data-kinds="{" ".join(kinds)}">\n'
            f"<summary>{self._compose_case_mark(difference)} "
            f'<b dir="auto">{escape(difference.case)}</b> '
            f'<span class="facts"><bdi>{escape(difference.subject)}</bdi> · '
            f"{self._describe_rates(difference)}</span></summary>\n"
            f'<div class="body">{body}</div></details>'
        )

    def _compose_case_mark(self, difference: CaseDifference) -> str:
        if self.earlier is not None and difference.change in _CHANGE_MARKS:
            return compose_mark(*_CHANGE_MARKS[difference.change])
        if difference.later is None:
            return ""
        return compose_mark(*_STATE_MARKS[difference.later.state])

    def _describe_rates(self, difference: CaseDifference) -> str:
        now = _describe_rate(difference.now)
        if self.earlier is None:
            return f"{now} passed"
        return f"{_describe_rate(difference.before)} → {now} passed"

    def _compose_body(
        self, difference: CaseDifference, record: CaseRecord, trials: Sequence[Trial]
    ) -> Iterator[str]:
        facts = {
            "Expected": _cut(record.expected),
            "Expected verdict": None
            if record.expected_verdict is None
            else ("good" if record.expected_verdict else "not good"),
            "Tags": ", ".join(record.tags),
        }
        if any(facts.values()):
            yield f"<dl>{compose_facts(facts)}</dl>"
        if difference.is_edited:
            yield '<p class="hint">The prompt of this case differs from the earlier one.</p>'
        if record.prompt:
            yield f'<pre class="prompt" dir="auto">{escape(_cut(record.prompt))}</pre>'
        earlier = difference.earlier if self.earlier is not None else None
        later = difference.later
        marked = self._mark_differences(earlier, later)
        columns = [
            self._compose_answer(heading, each, answer)
            for heading, each, answer in (("Before", earlier, marked[0]), ("Now", later, marked[1]))
            if each is not None
        ]
        if self.earlier is None and later is not None:
            columns = [self._compose_answer(f"Repeat {later.repeat}", later, marked[1])]
        single = " single" if len(columns) < 2 else ""
        yield f'<div class="pair{single}">{"".join(columns)}</div>'
        yield from self._compose_others(trials, later)

    def _compose_others(self, trials: Sequence[Trial], shown: Trial | None) -> Iterator[str]:
        others = [each for each in trials if each is not shown]
        for each in others[:_OTHERS_LIMIT]:
            mark = compose_mark(*_STATE_MARKS[each.state])
            answer = self._compose_answer("", each, _escape_answer(each))
            yield (
                f'<details class="folded"><summary>Repeat {each.repeat} {mark}</summary>'
                f"{answer}</details>"
            )
        if len(others) > _OTHERS_LIMIT:
            yield f'<p class="empty">{len(others) - _OTHERS_LIMIT:,} more repeats.</p>'

    def _mark_differences(self, earlier: Trial | None, later: Trial | None) -> tuple[str, str]:
        """Return both answers as HTML, with the words that differ marked."""
        before, now = _find_text(earlier), _find_text(later)
        if earlier is None or later is None or before == now:
            return _escape_answer(earlier), _escape_answer(later)
        self._diff_left -= len(before) + len(now)
        if self._diff_left < 0 or not before or not now:
            return _escape_answer(earlier), _escape_answer(later)
        old: list[str] = []
        new: list[str] = []
        for change, piece in compare_words(before, now):
            text = escape(piece)
            if change != "added":
                old.append(text if change == "equal" else f"<del>{text}</del>")
            if change != "removed":
                new.append(text if change == "equal" else f"<ins>{text}</ins>")
        return "".join(old), "".join(new)

    def _compose_answer(self, heading: str, trial: Trial, answer: str) -> str:
        mark = compose_mark(*_STATE_MARKS[trial.state])
        facts = _describe_answer(trial)
        title = f'<h3>{heading} {mark} <span class="facts">{facts}</span></h3>' if heading else ""
        verdicts = "\n".join(_compose_verdict(each) for each in trial.verdicts)
        problem = trial.answer.error if trial.answer is not None else trial.reason
        trouble = f'<p class="trouble" dir="auto">{escape(problem)}</p>' if problem else ""
        text = f'<pre class="answer" dir="auto">{answer}</pre>' if answer else ""
        listed = f'<ul class="verdicts">{verdicts}</ul>' if verdicts else ""
        return (
            f'<section aria-label="{heading or "Answer"}">{title}{trouble}{text}{listed}</section>'
        )


def _group(report: EvalReport) -> dict[tuple[str, str], list[Trial]]:
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in report.trials:
        groups.setdefault((trial.case, trial.subject), []).append(trial)
    return groups


def _write_moment(text: str) -> str:
    """Return a moment in the form of all pages; a text that is not a moment unchanged."""
    try:
        return describe_moment(datetime.fromisoformat(text))
    except ValueError:
        return text


def _is_good(difference: CaseDifference) -> bool:
    return bool(difference.now.total) and difference.now.passed == difference.now.total


def _describe_rate(rate: PassRate) -> str:
    return f"{rate.passed:,}/{rate.total:,}" if rate.total else "none"


def _find_text(trial: Trial | None) -> str:
    return "" if trial is None or trial.answer is None else _cut(trial.answer.text)


def _escape_answer(trial: Trial | None) -> str:
    return escape(_find_text(trial))


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}\n[… cut]"


def _describe_answer(trial: Trial) -> str:
    answer = trial.answer
    if answer is None:
        return ""
    tokens = answer.output_tokens
    parts = [
        escape(answer.model),
        f"{answer.seconds:.1f} s" if answer.seconds else "",
        "" if tokens is None else f"{tokens:,} tokens",
        write_dollars(answer.cost) if answer.cost else "",
        "vendor's batch" if answer.tier == "batch" else "",
        "cached" if answer.is_cached else "",
    ]
    return " · ".join(filter(None, parts))


def _compose_verdict(verdict: JudgeVerdict) -> str:
    state, words = {
        True: ("done", "✓ good"),
        False: ("failed", "✗ not good"),
        None: ("waiting", "! no verdict"),
    }[verdict.passed]
    score = "" if verdict.score is None else f'<span class="facts">{verdict.score:.2f}</span>'
    return (
        f'<li>{compose_mark(state, words)} <b dir="auto">{escape(verdict.judge)}</b> {score}'
        f'<p dir="auto">{escape(_cut(verdict.reason))}</p></li>'
    )


def _compose_agreement(agreement: Agreement, minimum: float) -> str:
    is_below = agreement.is_below(minimum)
    kind = ' class="trouble"' if is_below else ""
    warning = f" This is below {minimum:g}: do not rely on its verdicts." if is_below else ""
    return f"<li{kind}>{escape(agreement.describe())}{warning}</li>"


_BODY: Final = """<header>
<h1 dir="auto"><span>{title}</span> {mark}</h1>
<dl>
{facts}
</dl>
</header>
<main>
{subjects}
{judges}
<section class="wide">
<h2>Cases</h2>
<div class="toolbar script-only">
<label>Search <input type="search" id="words"></label>
<label>Show <select id="kind">{options}</select></label>
<span class="facts" id="count" role="status"></span>
</div>
{cases}
{left_out}
</section>
</main>
<script>{script}</script>
"""
