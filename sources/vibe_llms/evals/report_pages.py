"""Self-contained HTML page of a report, or of the differences between two reports.

All texts are escaped in Python. A content security policy lists the digests of the style sheet and
of the script, so that no other script runs, and forbids all requests. The page can be read without
scripts; the script filters the cases.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from vibe_llms.conversations.exchange.labels import describe_moment
from vibe_llms.conversations.exchange.pages import (
    compose_facts,
    compose_page,
    compose_source,
    read_style,
)
from vibe_llms.evals.case_sections import CHANGE_MARKS, STATE_MARKS, CaseSections
from vibe_llms.evals.comparing import (
    CaseDifference,
    EvalComparison,
    compare_reports,
)
from vibe_llms.evals.reports import EvalReport
from vibe_llms.evals.statistics import Agreement
from vibe_llms.evals.trials import TrialState
from vibe_llms.flows.pages import compose_mark, compose_table, read_part
from vibe_llms.foundation.money import write_dollars
from vibe_llms.foundation.package_data import access_data
from vibe_llms.foundation.reprs import escape

CASES_LIMIT: Final = 1_000
"""Number of cases with their answers; others are only counted."""

_ORDER: Final = tuple(CHANGE_MARKS)


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

    def compose(self, script: str) -> str:
        differences = sorted(self.comparison.differences, key=self._rank)
        shown = differences[:CASES_LIMIT]
        sections = CaseSections(self.report, self.earlier)
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
            cases="\n".join(sections.compose(n, each) for n, each in enumerate(shown)),
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
                yield f"change-{change}", CHANGE_MARKS[change][1].lstrip("↓↑+- ").capitalize()
        for state in TrialState:
            yield f"state-{state}", f"With trials: {STATE_MARKS[state][1].lstrip('✓✗! ')}"


def _write_moment(text: str) -> str:
    """Return a moment in the form of all pages; a text that is not a moment unchanged."""
    try:
        return describe_moment(datetime.fromisoformat(text))
    except ValueError:
        return text


def _is_good(difference: CaseDifference) -> bool:
    return bool(difference.now.total) and difference.now.passed == difference.now.total


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
