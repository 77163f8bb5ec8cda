"""Cases on the page of a report: their answers side by side, with the words that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from vibe_llms.conversations.exchange.pages import compose_facts
from vibe_llms.conversations.lineage.differences import Change, compare_words
from vibe_llms.evals.comparing import CaseDifference, EvalChange
from vibe_llms.evals.reports import CaseRecord, EvalReport
from vibe_llms.evals.statistics import PassRate
from vibe_llms.evals.trials import JudgeVerdict, Trial, TrialState
from vibe_llms.flows.pages import compose_mark
from vibe_llms.foundation.money import write_dollars
from vibe_llms.foundation.reprs import escape

_TEXT_LIMIT: Final = 20_000
"""Number of characters to which answers and prompts are cut."""

_DIFF_LIMIT: Final = 2_000_000
"""Number of characters of all answers and prompts that are compared word by word."""

_OTHERS_LIMIT: Final = 20
"""Number of further answers that a case shows."""

_MARKS: Final[Mapping[Change, str]] = {
    "equal": "{}",
    "removed": "<del>{}</del>",
    "added": "<ins>{}</ins>",
}
"""Pieces of a text that contains both versions."""

STATE_MARKS: Final = {
    TrialState.PASSED: ("done", "✓ passed"),
    TrialState.FAILED: ("failed", "✗ failed"),
    TrialState.ERROR: ("waiting", "! error"),
    TrialState.UNTRIED: ("unreached", "not tried"),
}
CHANGE_MARKS: Final = {
    EvalChange.WORSE: ("failed", "↓ worse"),
    EvalChange.BETTER: ("done", "↑ better"),
    EvalChange.NEW: ("changed", "+ new"),
    EvalChange.GONE: ("removed", "- gone"),
    EvalChange.UNTRIED: ("unreached", "not tried"),
}


class CaseSections:
    """Composer of the cases of a page.

    Args:
        report: Report.
        earlier: Report to compare it with; ``None`` for none.
    """

    def __init__(self, report: EvalReport, earlier: EvalReport | None) -> None:
        self._is_compared = earlier is not None
        self._before = {each.name: each for each in (earlier or report).cases}
        self._records = {**self._before, **{each.name: each for each in report.cases}}
        self._trials = _group(report)
        self._diff_left = _DIFF_LIMIT

    def compose(self, number: int, difference: CaseDifference) -> str:
        """Return the section of a case as HTML.

        Args:
            number: Number of the section on the page.
        """
        key = (difference.case, difference.subject)
        trials = self._trials.get(key, [])
        kinds = dict.fromkeys(f"state-{each.state}" for each in trials)
        kinds[f"change-{difference.change}"] = None
        if difference.is_regression:
            kinds["regression"] = None
        record = self._records.get(difference.case, CaseRecord(name=difference.case))
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
        if self._is_compared and difference.change in CHANGE_MARKS:
            return compose_mark(*CHANGE_MARKS[difference.change])
        if difference.later is None:
            return ""
        return compose_mark(*STATE_MARKS[difference.later.state])

    def _describe_rates(self, difference: CaseDifference) -> str:
        now = _describe_rate(difference.now)
        if not self._is_compared:
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
        if prompt := self._compose_prompt(record):
            yield f'<pre class="prompt" dir="auto">{prompt}</pre>'
        earlier = difference.earlier if self._is_compared else None
        later = difference.later
        marked = self._mark_differences(_find_text(earlier), _find_text(later))
        columns = [
            self._compose_answer(heading, each, answer)
            for heading, each, answer in (("Before", earlier, marked[0]), ("Now", later, marked[1]))
            if each is not None
        ]
        if not self._is_compared and later is not None:
            columns = [self._compose_answer(f"Repeat {later.repeat}", later, marked[1])]
        single = " single" if len(columns) < 2 else ""
        yield f'<div class="pair{single}">{"".join(columns)}</div>'
        yield from self._compose_others(trials, later)

    def _compose_prompt(self, record: CaseRecord) -> str:
        """Return the prompt as HTML; words that the earlier one has not, or alone has, marked."""
        prompt = _cut(record.prompt)
        earlier = self._before.get(record.name, record)
        pieces = [
            _MARKS[change].format(escape(piece))
            for change, piece in self._compare(_cut(earlier.prompt), prompt)
        ]
        return "".join(pieces) or escape(prompt)

    def _compose_others(self, trials: Sequence[Trial], shown: Trial | None) -> Iterator[str]:
        others = [each for each in trials if each is not shown]
        for each in others[:_OTHERS_LIMIT]:
            mark = compose_mark(*STATE_MARKS[each.state])
            answer = self._compose_answer("", each, _escape_answer(each))
            yield (
                f'<details class="folded"><summary>Repeat {each.repeat} {mark}</summary>'
                f"{answer}</details>"
            )
        if len(others) > _OTHERS_LIMIT:
            yield f'<p class="empty">{len(others) - _OTHERS_LIMIT:,} more repeats.</p>'

    def _mark_differences(self, before: str, now: str) -> tuple[str, str]:
        """Return two texts as HTML, with the words that differ marked."""
        old: list[str] = []
        new: list[str] = []
        for change, piece in self._compare(before, now):
            text = escape(piece)
            if change != "added":
                old.append(text if change == "equal" else f"<del>{text}</del>")
            if change != "removed":
                new.append(text if change == "equal" else f"<ins>{text}</ins>")
        if not old or not new:
            return escape(before), escape(now)
        return "".join(old), "".join(new)

    def _compare(self, before: str, now: str) -> tuple[tuple[Change, str], ...]:
        """Compare two texts by words; empty if they are equal, or if too many were compared."""
        if not before or not now or before == now:
            return ()
        self._diff_left -= len(before) + len(now)
        return () if self._diff_left < 0 else compare_words(before, now)

    def _compose_answer(self, heading: str, trial: Trial, answer: str) -> str:
        mark = compose_mark(*STATE_MARKS[trial.state])
        facts = _describe_answer(trial)
        title = f'<h3>{heading} {mark} <span class="facts">{facts}</span></h3>' if heading else ""
        verdicts = "\n".join(_compose_verdict(each) for each in trial.verdicts)
        problem = trial.answer.error if trial.answer is not None else trial.reason
        trouble = f'<p class="trouble" dir="auto">{escape(_cut(problem))}</p>' if problem else ""
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
