"""Reports: the trials of a run with their figures, saved as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from vibe_llms.evals.statistics import Agreement, PassRate, measure_agreement
from vibe_llms.evals.suites import GIVEN, Thresholds
from vibe_llms.evals.trials import Trial, TrialState
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import read_file, write_file
from vibe_llms.foundation.json_errors import UNREADABLE

SCHEMA: Final = "vibe-llms-eval-report/1"
"""Name and version of the form of saved reports."""

_MAX_BYTES: Final = 2_000_000_000


@frozen(kw_only=True)
class CaseRecord:
    """Case of a report.

    Attributes:
        name: Name of the case.
        prompt: Text that was sent, or the variables of tasks.
        expected: Expected value as text; empty if there is none.
        expected_verdict: Correct verdict; ``None`` if it is not given.
        tags: Tags.
    """

    name: str
    prompt: str = ""
    expected: str = ""
    expected_verdict: bool | None = None
    tags: tuple[str, ...] = ()


@frozen(kw_only=True)
class SubjectSummary:
    """Summary of a subject's trials.

    Attributes:
        subject: Name of the subject.
        rate: Share of passed trials; a trial without an answer or a verdict has not passed.
        errors: Number of trials without an answer or a verdict.
        untried: Number of trials that were not tried, which ``rate`` does not count.
        seconds: Median duration of the answers; ``None`` without answers.
        cost: Cost of the answers in dollars, as far as it is known, cached ones included.
    """

    subject: str
    rate: PassRate
    errors: int = 0
    untried: int = 0
    seconds: float | None = None
    cost: float = 0.0


@frozen(kw_only=True)
class EvalReport:
    """Report of a run of a suite.

    Attributes:
        suite: Name of the suite.
        created: Moment of the run, as ISO 8601.
        version: Version of vibe-llms.
        cases: Cases of the run, in order.
        subjects: Names of the subjects, in order.
        judges: Names of the judges, in order.
        trials: Trials, in the order of cases, subjects and repeats.
        thresholds: Thresholds of the suite.
        cost: Cost of this run in dollars, as far as it is known; cached results cost nothing.
        unpriced: Number of requests whose cost is unknown.
        max_cost: Maximum cost of the run; ``None`` for no limit.
    """

    suite: str
    created: str
    version: str
    cases: tuple[CaseRecord, ...]
    subjects: tuple[str, ...]
    judges: tuple[str, ...]
    trials: tuple[Trial, ...]
    thresholds: Thresholds = Thresholds()
    cost: float = 0.0
    unpriced: int = 0
    max_cost: float | None = None

    @property
    def untried(self) -> int:
        """Number of trials that were not tried because the cost is limited."""
        return sum(each.state is TrialState.UNTRIED for each in self.trials)

    @property
    def unjudged(self) -> int:
        """Number of given answers on which a judge has given no verdict."""
        return sum(each.subject == GIVEN and each.state is TrialState.ERROR for each in self.trials)

    @property
    def holds(self) -> bool:
        """True if each subject passes enough trials, and all were tried and judged."""
        minimum = self.thresholds.pass_rate
        if self.untried or self.unjudged:
            return False
        return all(each.rate.share >= minimum for each in self.summarize())

    def summarize(self) -> tuple[SubjectSummary, ...]:
        """Summarize the trials of each subject that has some; given answers only test judges."""
        groups: dict[str, list[Trial]] = {name: [] for name in self.subjects}
        for trial in self.trials:
            if trial.subject != GIVEN:
                groups.setdefault(trial.subject, []).append(trial)
        return tuple(_summarize(name, trials) for name, trials in groups.items() if trials)

    def measure_agreements(self) -> tuple[Agreement, ...]:
        """Measure the known agreement of each judge with labels, and with itself."""
        labels = {each.name: each.expected_verdict for each in self.cases}
        pairs: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
        votes: dict[str, list[tuple[bool, ...]]] = defaultdict(list)
        for trial in self.trials:
            label = labels.get(trial.case)
            for verdict in trial.verdicts:
                if verdict.passed is not None and label is not None:
                    pairs[verdict.judge].append((label, verdict.passed))
                votes[verdict.judge].append(verdict.votes)
        agreements = (measure_agreement(each, pairs[each], votes[each]) for each in self.judges)
        return tuple(each for each in agreements if each.labelled or each.repeated)

    def export(self) -> dict[str, Any]:
        """Return the report as plain data, with its figures."""
        document: dict[str, Any] = {"schema": SCHEMA, **msgspec.to_builtins(self)}
        document["summary"] = {
            "holds": self.holds,
            "untried": self.untried,
            "unjudged": self.unjudged,
            "subjects": [_export_summary(each) for each in self.summarize()],
            "agreements": [msgspec.to_builtins(each) for each in self.measure_agreements()],
        }
        return document

    def write(self, path: Path | str) -> None:
        """Write the report as JSON. Raises StoreError or OSError."""
        write_file(path, msgspec.json.format(msgspec.json.encode(self.export()), indent=1) + b"\n")


def read_report(path: Path | str) -> EvalReport:
    """Read a report from its file.

    Raises:
        ConfigurationError: The file cannot be read, or is not a report of a known version.
    """
    try:
        raw = read_file(path, _MAX_BYTES)
    except OSError as error:
        detail = f"Cannot read the file: {error.strerror or error}."
        raise ConfigurationError.at(str(path), detail) from error
    try:
        head = msgspec.json.decode(raw, type=_Head)
    except UNREADABLE as error:
        message = f"It is not a report of `vibe eval`: {error}. Write one with --output."
        raise ConfigurationError.at(str(path), message) from error
    if head.schema != SCHEMA:
        message = f"Unknown schema {head.schema!r}; it must be {SCHEMA!r}. Run the suite again."
        raise ConfigurationError.at(str(path), message)
    try:
        return msgspec.json.decode(raw, type=EvalReport)
    except (*UNREADABLE, ConfigurationError) as error:
        raise ConfigurationError.at(str(path), f"The report is damaged: {error}.") from error


class _Head(msgspec.Struct):
    """Beginning of a report: the name of its form."""

    schema: str


def _summarize(name: str, trials: Iterable[Trial]) -> SubjectSummary:
    trials = list(trials)
    states = [each.state for each in trials]
    tried = len(states) - states.count(TrialState.UNTRIED)
    answers = [each.answer for each in trials if each.answer is not None]
    seconds = sorted(each.seconds for each in answers if not each.error)
    return SubjectSummary(
        subject=name,
        rate=PassRate(passed=states.count(TrialState.PASSED), total=tried),
        errors=states.count(TrialState.ERROR),
        untried=states.count(TrialState.UNTRIED),
        seconds=seconds[len(seconds) // 2] if seconds else None,
        cost=sum(each.cost or 0.0 for each in answers),
    )


def _export_summary(summary: SubjectSummary) -> Mapping[str, Any]:
    low, high = summary.rate.interval
    return {
        **msgspec.to_builtins(summary),
        "rate": {
            "passed": summary.rate.passed,
            "total": summary.rate.total,
            "share": summary.rate.share,
            "low": low,
            "high": high,
        },
    }
