"""Comparison of two reports: better, worse, new and removed cases."""

from __future__ import annotations

import enum
from collections import defaultdict
from typing import Any

import msgspec

from vibe_llms.evals.reports import CaseRecord, EvalReport
from vibe_llms.evals.statistics import PassRate
from vibe_llms.evals.trials import Trial, TrialState
from vibe_llms.foundation.attrs_classes import frozen


class EvalChange(enum.StrEnum):
    """Change of a case for a subject."""

    WORSE = "worse"
    BETTER = "better"
    NEW = "new"
    GONE = "gone"
    UNTRIED = "untried"
    SAME = "same"


@frozen(kw_only=True)
class CaseDifference:
    """Difference of one case for one subject.

    Attributes:
        case: Name of the case.
        subject: Name of the subject.
        change: Kind of the change.
        before: Share of passed trials in the earlier report.
        now: Share of passed trials in this report.
        is_regression: Whether the share decreased by more than the suite allows.
        is_edited: Whether the prompt of the case differs.
        earlier: Trial of the earlier report that shows the difference; ``None`` without trials.
        later: Trial of this report that shows it.
    """

    case: str
    subject: str
    change: EvalChange
    before: PassRate
    now: PassRate
    is_regression: bool = False
    is_edited: bool = False
    earlier: Trial | None = None
    later: Trial | None = None


@frozen(kw_only=True)
class EvalComparison:
    """Comparison of a report with an earlier one.

    Attributes:
        differences: All cases of both reports, for each subject: in the order of this report, then
            cases that are gone.
    """

    differences: tuple[CaseDifference, ...]

    @property
    def regressions(self) -> tuple[CaseDifference, ...]:
        """Cases that became worse by more than the suite allows."""
        return tuple(each for each in self.differences if each.is_regression)

    def select(self, change: EvalChange) -> tuple[CaseDifference, ...]:
        """Return the cases with a kind of change."""
        return tuple(each for each in self.differences if each.change is change)

    def export(self) -> dict[str, Any]:
        """Return the changed cases as plain data, without their trials."""
        return {
            "regressions": len(self.regressions),
            "changes": [
                {
                    "case": each.case,
                    "subject": each.subject,
                    "change": str(each.change),
                    "before": msgspec.to_builtins(each.before),
                    "now": msgspec.to_builtins(each.now),
                    "is_regression": each.is_regression,
                    "is_edited": each.is_edited,
                }
                for each in self.differences
                if each.change is not EvalChange.SAME
            ],
        }


def compare_reports(earlier: EvalReport, report: EvalReport) -> EvalComparison:
    """Compare a report with an earlier one; the thresholds are those of the later one."""
    before, now = _group(earlier), _group(report)
    cases = {each.name: each for each in earlier.cases}
    later_cases = {each.name: each for each in report.cases}
    return EvalComparison(
        differences=tuple(
            _compare(
                key,
                before.get(key, []),
                now.get(key, []),
                tolerance=report.thresholds.regression,
                is_edited=_is_edited(cases.get(key[0]), later_cases.get(key[0])),
            )
            for key in dict.fromkeys((*now, *before))
        )
    )


def _group(report: EvalReport) -> dict[tuple[str, str], list[Trial]]:
    groups: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in report.trials:
        groups[trial.case, trial.subject].append(trial)
    return dict(groups)


def _is_edited(earlier: CaseRecord | None, later: CaseRecord | None) -> bool:
    return earlier is not None and later is not None and earlier.prompt != later.prompt


def _compare(
    key: tuple[str, str],
    before: list[Trial],
    now: list[Trial],
    *,
    tolerance: float,
    is_edited: bool,
) -> CaseDifference:
    earlier_rate, rate = _rate(before), _rate(now)
    change = _classify(before, now, earlier_rate, rate)
    drop = earlier_rate.share - rate.share
    earlier, later = _choose(before, now, change)
    return CaseDifference(
        case=key[0],
        subject=key[1],
        change=change,
        before=earlier_rate,
        now=rate,
        # Shares are fractions: a drop of 0.1 may be 0.09999999999999998.
        is_regression=change is EvalChange.WORSE and drop > tolerance + 1e-9,
        is_edited=is_edited,
        earlier=earlier,
        later=later,
    )


def _rate(trials: list[Trial]) -> PassRate:
    states = [each.state for each in trials]
    tried = len(states) - states.count(TrialState.UNTRIED)
    return PassRate(passed=states.count(TrialState.PASSED), total=tried)


def _classify(
    before: list[Trial], now: list[Trial], earlier_rate: PassRate, rate: PassRate
) -> EvalChange:
    if not now:
        return EvalChange.GONE
    if not rate.total:
        return EvalChange.UNTRIED
    if not before or not earlier_rate.total:
        return EvalChange.NEW
    if rate.share < earlier_rate.share:
        return EvalChange.WORSE
    return EvalChange.BETTER if rate.share > earlier_rate.share else EvalChange.SAME


def _choose(
    before: list[Trial], now: list[Trial], change: EvalChange
) -> tuple[Trial | None, Trial | None]:
    """Return the trials that show a change: if it is worse, a passed one and a failed one."""
    was_good = change is EvalChange.WORSE
    if change is EvalChange.BETTER or was_good:
        return _find(before, is_passed=was_good), _find(now, is_passed=not was_good)
    return _find(before, is_passed=False), _find(now, is_passed=False)


def _find(trials: list[Trial], *, is_passed: bool) -> Trial | None:
    """Return the first trial that has passed, or that has not; else the first of all."""
    for trial in trials:
        if (trial.state is TrialState.PASSED) is is_passed:
            return trial
    return trials[0] if trials else None
