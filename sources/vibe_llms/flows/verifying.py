"""Verification of a flow's goal: a verdict on each condition, with its evidence.

A condition that cannot be evaluated, because its schema is invalid or a predicate fails, is not
met, and its evidence says why: an error would lose the responses that were paid for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from vibe_llms.exceptions import ConverseError
from vibe_llms.flows.categorizing import categorize
from vibe_llms.flows.judging import Judge, judge_condition
from vibe_llms.flows.predicates import Predicates, ask_predicate
from vibe_llms.flows.response_search import find_json, normalize, quote
from vibe_llms.flows.signs import find_sign
from vibe_llms.flows.task_kinds import read_whole
from vibe_llms.flows.tasks import CategoryRule, EvaluationType, Goal, TargetCondition
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.invocables.argument_faults import shorten
from vibe_llms.invocables.threads import run_in_thread
from vibe_llms.invocables.validation import produce_validator
from vibe_llms.plugins.specification.flows import PredicateContext

NOT_ENDED: Final = "The flow did not reach its end."

_SHOWN_FAULTS: Final = 3


@frozen(kw_only=True)
class FlowOutcome:
    """Outcome of a flow, as far as its goal depends on it.

    Attributes:
        response: Final response.
        category: Category found by the last choice of an edge; empty if there was none.
        transitions: Number of visits of nodes.
        responses: Last response of each node, by its id.
        variables: Values of ``{{name}}``.
        ended: Whether the flow reached its end: no limit, no failure, no stop request.
    """

    response: str
    category: str = ""
    transitions: int = 0
    responses: Mapping[str, str] = attrs.field(factory=dict)
    variables: Mapping[str, JsonValue] = attrs.field(factory=dict)
    ended: bool = True


@frozen(kw_only=True)
class Verdict:
    """Verdict on one condition.

    Attributes:
        condition: Condition of the task.
        is_met: Whether it holds.
        evidence: Reason, in a sentence for people that quotes the place.
        confidence: Confidence in the verdict, from 0 to 1; 0 if the condition could not be
            evaluated.
    """

    condition: TargetCondition
    is_met: bool
    evidence: str
    confidence: float = 1.0


@frozen(kw_only=True)
class GoalVerification:
    """Verification of a goal: the result, and the verdicts on the conditions, in order."""

    is_met: bool
    verdicts: tuple[Verdict, ...] = ()


async def verify(
    goal: Goal,
    outcome: FlowOutcome,
    *,
    require_all: bool,
    predicates: Predicates,
    judge: Judge | None,
    rules: Mapping[str, CategoryRule] | None = None,
) -> GoalVerification:
    """Evaluate all conditions of a goal.

    A flow that has not ended has not met its goal. Conditions are still evaluated if that costs
    nothing.

    Args:
        require_all: Whether all conditions must be met, or one is enough. Without conditions,
            reaching the end is enough.
        predicates: Predicates of the plugins, by name.
        judge: Judge for conditions that a model evaluates; ``None`` if no model can be asked.
        rules: Rules that categorize the final response if no choice of an edge has done so.
    """
    evaluator = _Evaluator(goal, outcome, predicates, judge, rules or {})
    verdicts = tuple([await evaluator.evaluate(condition) for condition in goal.target_conditions])
    combine = all if require_all or not verdicts else any
    is_met = outcome.ended and combine(each.is_met for each in verdicts)
    return GoalVerification(is_met=is_met, verdicts=verdicts)


@frozen
class _Evaluator:
    """Evaluator of conditions for one outcome."""

    goal: Goal
    outcome: FlowOutcome
    predicates: Predicates
    judge: Judge | None
    rules: Mapping[str, CategoryRule]

    async def evaluate(self, condition: TargetCondition) -> Verdict:
        """Return a verdict on a condition, even if its evaluation fails."""
        evaluate = _EVALUATIONS[condition.evaluation_type]
        try:
            is_met, confidence, evidence = await evaluate(self, condition)
        except ConverseError as error:
            is_met, confidence = False, 0.0
            evidence = f"The condition could not be tested: {error}"
        return Verdict(condition=condition, is_met=is_met, confidence=confidence, evidence=evidence)

    @property
    def context(self) -> PredicateContext:
        return PredicateContext(variables=self.outcome.variables, responses=self.outcome.responses)

    async def match_category(self, condition: TargetCondition) -> _Evaluation:
        expected = str(condition.expected_value)
        if category := self.outcome.category:
            is_met = normalize(category) == normalize(expected)
            end = "as expected" if is_met else f"not {expected!r}"
            return is_met, 1.0, f"The last choice found the category {category!r}, {end}."
        found = await categorize(
            self.outcome.response,
            # The result is one of these names, so the expected name is spelt as in the task.
            [expected, *(name for name in self.rules if normalize(name) != normalize(expected))],
            self.rules,
            predicates=self.predicates,
            # Do not pay for a question about a goal that is already missed.
            judge=self.judge if self.outcome.ended else None,
            context=self.context,
        )
        is_met = found.name == expected
        other = f"It is {found.name!r}, not {expected!r}. " if found.name and not is_met else ""
        return is_met, found.confidence, f"{other}{found.evidence}"

    async def search_text(self, condition: TargetCondition) -> _Evaluation:
        expected, response = str(condition.expected_value), self.outcome.response
        if place := _find_text(response, expected):
            return True, 1.0, f"The final response contains {expected!r}: {place}."
        sentence = f"The final response does not contain {expected!r}"
        for node, other in self.outcome.responses.items():
            if place := _find_text(other, expected):
                return False, 1.0, f"{sentence}, but that of {node} does: {place}."
        return False, 1.0, f"{sentence}; it begins: {shorten(response) or 'nothing was said'}"

    async def count(self, condition: TargetCondition) -> _Evaluation:
        limit, count = read_whole(condition.expected_value) or 0, self.outcome.transitions
        sentence = f"The flow took {count} transitions; at most {limit} were allowed."
        if not self.outcome.ended:
            return False, 1.0, f"{NOT_ENDED} {sentence}"
        return count <= limit, 1.0, sentence

    async def search_signs(self, condition: TargetCondition) -> _Evaluation:
        if not self.outcome.ended:
            return False, 1.0, NOT_ENDED
        sign = find_sign(self.outcome.response, self.outcome.category)
        return sign.is_good, sign.confidence, sign.evidence

    async def ask_plugin(self, condition: TargetCondition) -> _Evaluation:
        ruling = await ask_predicate(
            self.predicates, str(condition.expected_value), self.outcome.response, self.context
        )
        return ruling.is_met, ruling.confidence, ruling.evidence

    async def apply_schema(self, condition: TargetCondition) -> _Evaluation:
        schema: Any = condition.expected_value
        return await run_in_thread(lambda: _apply_schema(self.outcome.response, schema))

    async def ask_model(self, condition: TargetCondition) -> _Evaluation:
        if not self.outcome.ended:
            return False, 1.0, f"{NOT_ENDED} No model was asked."
        if self.judge is None:
            return False, 0.0, "No model could be asked."
        expected = condition.expected_value
        judgment = await judge_condition(
            self.judge,
            self.outcome.response,
            goal=self.goal.description,
            condition=condition.description,
            expected="" if expected is None else _write(expected),
        )
        return judgment.value is True, judgment.confidence, judgment.evidence


_Evaluation = tuple[bool, float, str]
"""Whether a condition is met, the confidence in that, and the evidence."""

_Evaluate: TypeAlias = Callable[[_Evaluator, TargetCondition], Awaitable[_Evaluation]]

_EVALUATIONS: Final[Mapping[EvaluationType, _Evaluate]] = {
    EvaluationType.CATEGORY_MATCH: _Evaluator.match_category,
    EvaluationType.CONTAINS: _Evaluator.search_text,
    EvaluationType.ITERATION_LIMIT: _Evaluator.count,
    EvaluationType.GOAL_MET: _Evaluator.search_signs,
    EvaluationType.CUSTOM: _Evaluator.ask_plugin,
    EvaluationType.JSON_SCHEMA: _Evaluator.apply_schema,
    EvaluationType.JUDGE: _Evaluator.ask_model,
}


def _find_text(text: str, expected: str) -> str:
    """Quote the place of a text, ignoring case and white space; empty if it is not found."""
    found = re.search(r"\s+".join(map(re.escape, expected.split())), text, re.IGNORECASE)
    return quote(text, *found.span()) if found else ""


def _apply_schema(response: str, schema: JsonObject) -> _Evaluation:
    """Validate the JSON of a response against a schema; may wait for another process."""
    validator = produce_validator(schema, "the condition")
    try:
        value = json.loads(response)  # may be a single text or number
    except (ValueError, RecursionError):
        value = find_json(response, lambda value: not validator.check(value))
    if value is ABSENT:
        evidence = (
            "The final response contains no JSON, or several JSON values; it begins: "
            f"{shorten(response) or 'nothing was said'}"
        )
        return False, 1.0, evidence
    faults = validator.check(value)
    if not faults:
        return True, 1.0, "The JSON of the final response matches the schema."
    words = "; ".join(
        f"response{fault.path.removeprefix('arguments')} {fault.rule}"
        for fault in faults[:_SHOWN_FAULTS]
    )
    more = f"; and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
    return False, 1.0, f"The JSON of the final response does not match the schema: {words}{more}."


def _write(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
