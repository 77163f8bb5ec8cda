"""Runners of judges, and verdicts by the verifications of flows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.evals.costs import EvalBudget
from vibe_llms.evals.suites import EvalCase, EvalJudge, find_expected, write_value
from vibe_llms.evals.trials import JudgeVerdict, SubjectAnswer
from vibe_llms.exceptions import ConverseError
from vibe_llms.flows.predicates import Ruling
from vibe_llms.flows.response_search import normalize
from vibe_llms.flows.tasks import EvaluationType, Goal, TargetCondition
from vibe_llms.flows.verifying import FlowOutcome, verify
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import escape_surrogates

_CONDITIONS: Final[Mapping[str, EvaluationType]] = {
    "contains": EvaluationType.CONTAINS,
    "category": EvaluationType.CATEGORY_MATCH,
    "json_schema": EvaluationType.JSON_SCHEMA,
    "success": EvaluationType.GOAL_MET,
}
"""Kinds of judges that are verifications of flows."""


@frozen(kw_only=True)
class Exhibit:
    """Answer to be judged, with its case.

    Attributes:
        case: Case.
        prompt: Prompt, as text.
        answer: Answer.
    """

    case: EvalCase
    prompt: str
    answer: SubjectAnswer


class JudgeRunner:
    """Runner of one judge; the base class judges by the verifications of flows.

    Args:
        judge: Judge.
    """

    def __init__(self, judge: EvalJudge) -> None:
        self.judge = judge

    async def prepare(self) -> None:
        """Load what the judge needs. Raises ConverseError."""

    async def check(self, case: EvalCase) -> None:
        """Check the expected value of a case. Raises RequestError."""
        if self.judge.kind == "json_schema":
            from vibe_llms.invocables.faults import produce_schema_validator  # slow to import

            schema: Any = find_expected(self.judge, case)
            await asyncio.to_thread(
                produce_schema_validator, schema, f"the judge {self.judge.name!r}"
            )

    async def rule(self, exhibit: Exhibit, budget: EvalBudget) -> JudgeVerdict:
        """Return a verdict, even if the judge fails.

        Raises:
            ConverseError: The error would affect every other answer as well.
        """
        try:
            ruling = await self._rule(exhibit)
        except ConverseError as error:
            reason = escape_surrogates(str(error))
            return JudgeVerdict(judge=self.judge.name, passed=None, reason=reason)
        if ruling is None:
            reason = "Only tasks have goals; this subject is a model."
            return JudgeVerdict(judge=self.judge.name, passed=None, reason=reason)
        score = ruling.confidence if ruling.is_met else 1 - ruling.confidence
        return JudgeVerdict(
            judge=self.judge.name,
            passed=ruling.is_met,
            score=score,
            reason=escape_surrogates(ruling.evidence),  # functions may return any text
        )

    async def _rule(self, exhibit: Exhibit) -> Ruling | None:
        judge, answer = self.judge, exhibit.answer
        expected = find_expected(judge, exhibit.case)
        if judge.kind == "goal":
            return _rule_by_goal(answer)
        if judge.kind == "equals":
            return _compare(answer.text, write_value(expected))
        if judge.kind in ("contains", "category"):
            expected = write_value(expected)  # also of a number
        condition = TargetCondition(
            description=judge.name, evaluation_type=_CONDITIONS[judge.kind], expected_value=expected
        )
        conditions: Any = (condition,)  # type checkers do not know the type of its converter
        verification = await verify(
            Goal(description="A good answer.", target_conditions=conditions),
            FlowOutcome(response=answer.text),
            require_all=True,
            predicates={},
            judge=None,
        )
        (verdict,) = verification.verdicts
        if not verdict.confidence:  # the condition could not be evaluated
            raise ConverseError(detail=verdict.evidence)
        return Ruling(
            is_met=verdict.is_met, confidence=verdict.confidence, evidence=verdict.evidence
        )


def _rule_by_goal(answer: SubjectAnswer) -> Ruling | None:
    if answer.goal_met is None:
        return None
    evidence = answer.evidence or "All conditions of the goal are met."
    return Ruling(is_met=answer.goal_met, confidence=1.0, evidence=evidence)


def _compare(text: str, expected: str) -> Ruling:
    is_met = normalize(text) == normalize(expected)
    evidence = f"The answer {'is' if is_met else 'is not'} {expected!r}."
    return Ruling(is_met=is_met, confidence=1.0, evidence=evidence)
