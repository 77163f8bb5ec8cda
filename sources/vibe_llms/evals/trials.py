"""Trials: a case, a subject and a repeat, with the answer and the verdicts on it."""

from __future__ import annotations

import enum

from vibe_llms.foundation.attrs_classes import frozen


class TrialState(enum.StrEnum):
    """State of a trial.

    ``PASSED``: all judges say that the answer is good. ``FAILED``: a judge says that it is not.
    ``ERROR``: there is no answer, or a judge could not judge it. ``UNTRIED``: the subject or a
    judge was not asked, because the cost is limited.
    """

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    UNTRIED = "untried"


@frozen(kw_only=True)
class SubjectAnswer:
    """Answer of a subject to a case.

    Attributes:
        text: Text of the answer.
        error: Reason for a missing answer; empty if there is one.
        model: Address of the model that answered; empty if unknown.
        seconds: Duration.
        input_tokens: Number of input tokens; ``None`` if the vendor did not report it.
        output_tokens: Number of output tokens.
        cost: Cost in dollars; ``None`` if it is unknown.
        tier: Price tier: ``batch`` for batches of vendors; empty for the standard price.
        losses: Losses of the translation, a line each.
        goal_met: For a task, whether it met its goal; otherwise ``None``.
        evidence: For a task, the reason for ``goal_met``.
        is_cached: Whether an earlier run has paid for it.
    """

    text: str = ""
    error: str = ""
    model: str = ""
    seconds: float = 0.0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    tier: str = ""
    losses: tuple[str, ...] = ()
    goal_met: bool | None = None
    evidence: str = ""
    is_cached: bool = False


@frozen(kw_only=True)
class JudgeVerdict:
    """Verdict of a judge on an answer.

    Attributes:
        judge: Name of the judge.
        passed: Whether the answer is good; ``None`` if the judge could not judge it.
        score: Score from 0 to 1; ``None`` without a verdict.
        reason: Reason for the verdict, or for its absence.
        votes: For a model, its verdicts on the same answer; the majority decides.
        cost: Cost of the judge in dollars; ``None`` if it is unknown.
        is_untried: Whether the model was not asked because the cost is limited.
    """

    judge: str
    passed: bool | None
    score: float | None = None
    reason: str = ""
    votes: tuple[bool, ...] = ()
    cost: float | None = 0.0
    is_untried: bool = False


@frozen(kw_only=True)
class Trial:
    """Trial: one answer of a subject to a case, and the verdicts on it.

    Attributes:
        case: Name of the case.
        subject: Name of the subject.
        repeat: Number of the repeat, from 1.
        answer: Answer; ``None`` if nothing was sent.
        verdicts: Verdicts of the judges; empty without an answer.
    """

    case: str
    subject: str
    repeat: int = 1
    answer: SubjectAnswer | None = None
    verdicts: tuple[JudgeVerdict, ...] = ()

    @property
    def state(self) -> TrialState:
        """State of the trial."""
        if self.answer is None:
            return TrialState.UNTRIED
        if self.answer.error:
            return TrialState.ERROR
        if any(each.passed is False for each in self.verdicts):
            return TrialState.FAILED
        if any(each.is_untried for each in self.verdicts):
            return TrialState.UNTRIED
        if any(each.passed is None for each in self.verdicts):
            return TrialState.ERROR
        return TrialState.PASSED

    @property
    def reason(self) -> str:
        """Reason of the state: of the first verdict that is not good, or the missing answer."""
        if self.answer is None:
            return "Nothing was sent: the cost is limited."
        if self.answer.error:
            return self.answer.error
        for passed in (False, None):
            for each in self.verdicts:
                if each.passed is passed:
                    return f"{each.judge}: {each.reason}"
        return ""
