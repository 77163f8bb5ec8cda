"""Each condition of a goal gets a verdict with its evidence, and the goal follows from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import ProviderError
from vibe_llms.flows.judging import Judge
from vibe_llms.flows.predicates import Predicates
from vibe_llms.flows.signs import find_sign
from vibe_llms.flows.tasks import CategoryRule, EvaluationType, Goal, TargetCondition
from vibe_llms.flows.verifying import FlowOutcome, GoalVerification, Verdict, verify
from vibe_llms.foundation.json_types import JsonObject, JsonValue

SAID = FlowOutcome(
    response="Cells divide.\nThe end.",
    category="success",
    transitions=7,
    responses={"P0": "Cells are small.", "P1": "Cells divide.\nThe end."},
    variables={"topic": "cells"},
)


def condition(kind: str, expected: JsonValue = None, description: str = "It is so.") -> Any:
    """Makes a condition."""
    return TargetCondition(
        description=description, evaluation_type=EvaluationType(kind), expected_value=expected
    )


async def look(
    *conditions: TargetCondition,
    outcome: FlowOutcome = SAID,
    require_all: bool = True,
    predicates: Predicates | None = None,
    judge: Judge | None = None,
    rules: Mapping[str, CategoryRule] | None = None,
) -> GoalVerification:
    """Verifies with what is usual."""
    goal = Goal(description="Explain cells.", target_conditions=conditions)
    return await verify(
        goal,
        outcome,
        require_all=require_all,
        predicates=predicates or {},
        judge=judge,
        rules=rules,
    )


async def check(given: TargetCondition, **named: Any) -> Verdict:
    """Returns the verdict on one condition, of which the goal is made."""
    found = await look(given, **named)
    (verdict,) = found.verdicts
    outcome = named.get("outcome", SAID)
    assert found.is_met is (verdict.is_met and outcome.ended)
    assert verdict.condition is given
    return verdict


@pytest.mark.parametrize(
    ("kind", "expected", "is_met", "evidence"),
    [
        ("CATEGORY_MATCH", "Success", True, "The last choice found the category 'success', as exp"),
        ("CATEGORY_MATCH", "retry", False, "found the category 'success', not 'retry'."),
        (
            "CONTAINS",
            "the END",
            True,
            "contains 'the END': \u201cCells divide. The end.\u201d (line 2).",
        ),
        ("CONTAINS", "divide. the", True, "(line 1)"),
        ("CONTAINS", "birds", False, "does not contain 'birds'; it begins: Cells divide."),
        (
            "CONTAINS",
            "small",
            False,
            "but that of P0 does: \u201cCells are small.\u201d (line 1).",
        ),
        ("ITERATION_LIMIT", "7", True, "The flow took 7 transitions; at most 7 were allowed."),
        ("ITERATION_LIMIT", 6, False, "The flow took 7 transitions; at most 6 were allowed."),
        ("GOAL_MET", None, True, "The last choice found the category 'success'."),
        ("CUSTOM", "short", True, "The predicate 'short' says: It has 4 words about cells."),
        (
            "CUSTOM",
            "shirt",
            False,
            "could not be tested: Unknown predicate 'shirt'; did you",
        ),
        ("CUSTOM", "clumsy", False, "could not be tested: The predicate 'clumsy'"),
        ("JUDGE", None, False, "No model could be asked."),
    ],
)
async def test_each_kind_of_condition_has_its_evidence(
    kind: str, expected: JsonValue, is_met: bool, evidence: str
) -> None:
    """A sentence that quotes what it is based on."""

    def is_short(response: str, context: Any) -> tuple[bool, str]:
        words, topic = len(response.split()), context.variables["topic"]
        return context.responses["P1"] == response, f"It has {words} words about {topic}."

    def stumble(response: str, context: Any) -> bool:
        raise ValueError("stumbled")

    predicates = {"short": is_short, "clumsy": stumble}
    verdict = await check(condition(kind, expected), predicates=predicates)

    assert verdict.is_met is is_met
    assert evidence in verdict.evidence


SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"score": {"type": "integer"}, "words": {"items": {"pattern": "^[a-z]+$"}}},
    "required": ["score"],
}


@pytest.mark.parametrize(
    ("response", "schema", "is_met", "evidence"),
    [
        ('{"score": 7}', SCHEMA, True, "matches the schema"),
        ('So:\n```json\n{"score": 7, "words": ["ok"]}\n```', SCHEMA, True, "matches the schema"),
        ('{"scor": 7}', SCHEMA, False, "response.score is required; 'scor' was given"),
        ('{"score": 7, "words": ["NO"]}', SCHEMA, False, "response.words[0]"),
        ('As {"x": 1}: {"score": 7}', SCHEMA, True, "matches the schema"),
        ("no JSON", SCHEMA, False, "The final response contains no JSON"),
        ("7", {"type": "integer"}, True, "matches the schema"),
        ("{}", {"type": "nonsense"}, False, "could not be tested: Cannot apply the schema"),
        ("[1]", SCHEMA, False, "response must be"),
    ],
)
async def test_json_is_held_against_a_schema(
    response: str, schema: JsonObject, is_met: bool, evidence: str
) -> None:
    """Alone, fenced or among prose; what does not fit is named by its path."""
    outcome = attrs.evolve(SAID, response=response)
    verdict = await check(condition("JSON_SCHEMA", schema), outcome=outcome)

    assert verdict.is_met is is_met
    assert evidence in verdict.evidence


async def test_many_faults_are_counted_and_not_all_told() -> None:
    """The first ones say enough."""
    schema = {"required": list("abcde")}
    verdict = await check(
        condition("JSON_SCHEMA", schema), outcome=attrs.evolve(SAID, response="{}")
    )
    assert verdict.evidence.endswith("response.c is required; and 2 more.")


@attrs.define
class Oracle:
    """A judge who gives one answer, and keeps what it was asked."""

    answer: JsonValue
    questions: list[str] = attrs.field(factory=list)

    async def __call__(self, question: str, schema: JsonObject) -> JsonValue:
        self.questions.append(question)
        return self.answer


@pytest.mark.parametrize(
    ("answer", "is_met", "confidence"),
    [
        ({"reason": "It says so.", "is_met": True, "confidence": 0.8}, True, 0.8),
        ({"reason": "Not quite.", "is_met": False, "confidence": 1}, False, 1.0),
        ({"reason": "?", "is_met": "yes"}, False, 0.0),
        (True, True, 0.5),
        (None, False, 0.0),
    ],
)
async def test_a_model_judges_by_the_words_of_goal_and_condition(
    answer: JsonValue, is_met: bool, confidence: float
) -> None:
    """What does not keep to the form is no yes."""
    oracle = Oracle(answer)
    verdict = await check(condition("JUDGE", {"tone": "calm"}, "It is calm."), judge=oracle)

    assert (verdict.is_met, verdict.confidence) == (is_met, confidence)
    (question,) = oracle.questions
    for words in ("Explain cells.", "It is calm.", '{"tone": "calm"}', SAID.response):
        assert words in question


async def test_a_judge_who_cannot_be_asked_loses_nothing() -> None:
    """The condition is not met, and says why."""

    async def refuse(question: str, schema: JsonObject) -> JsonValue:
        raise ProviderError(provider="acme", detail="no credit")

    verdict = await check(condition("JUDGE"), judge=refuse)
    assert (verdict.is_met, verdict.confidence) == (False, 0.0)
    assert "no credit" in verdict.evidence


async def test_where_no_edge_was_chosen_the_response_itself_is_told_apart() -> None:
    """By the rules of the task, or else by the name of the category."""
    outcome = attrs.evolve(SAID, category="", response="It is marvellous.")
    rules = {
        "positive": CategoryRule(keywords=["marvellous"]),
        "negative": CategoryRule(keywords=["awful"]),
    }

    met = await check(condition("CATEGORY_MATCH", "Positive"), outcome=outcome, rules=rules)
    other = await check(condition("CATEGORY_MATCH", "negative"), outcome=outcome, rules=rules)
    named = await check(condition("CATEGORY_MATCH", "marvellous"), outcome=outcome)

    assert (met.is_met, other.is_met, named.is_met) == (True, False, True)
    assert other.evidence.startswith("It is 'positive', not 'negative'. 'marvellous' is in")


GOOD, BAD = condition("CONTAINS", "cells"), condition("CONTAINS", "birds")


@pytest.mark.parametrize(
    ("conditions", "require_all", "is_met"),
    [
        ([], True, True),
        ([], False, True),
        ([GOOD, BAD], True, False),
        ([GOOD, BAD], False, True),
        ([BAD], False, False),
        ([GOOD, GOOD], True, True),
    ],
)
async def test_all_conditions_are_wanted_or_any(
    conditions: list[TargetCondition], require_all: bool, is_met: bool
) -> None:
    """Without any, coming to the end is enough."""
    found = await look(*conditions, require_all=require_all)
    assert found.is_met is is_met
    assert [verdict.condition for verdict in found.verdicts] == conditions


async def test_a_flow_that_did_not_end_has_not_met_its_goal() -> None:
    """Its conditions are looked at all the same, but no model is asked."""
    stopped = attrs.evolve(SAID, ended=False)
    oracle = Oracle({"is_met": True})
    kinds = [GOOD, condition("ITERATION_LIMIT", 20), condition("GOAL_MET"), condition("JUDGE")]

    found = await look(*kinds, outcome=stopped, judge=oracle)
    nothing = await look(outcome=stopped)

    assert [each.is_met for each in found.verdicts] == [True, False, False, False]
    assert all("did not reach its end" in each.evidence for each in found.verdicts[1:])
    assert not found.is_met
    assert not nothing.is_met
    assert not oracle.questions


ESSAY = "The bridge failed in 1940, and could not be saved. " * 20


@pytest.mark.parametrize(
    ("response", "category", "is_good", "confidence"),
    [
        ("The report is completed.", "", True, 0.7),
        ("The upload failed.", "", False, 0.7),
        ("The upload failed at first, then it succeeded.", "", True, 0.5),
        ("It is not done.", "", False, 0.7),
        ("There were no errors.", "", True, 0.7),
        ("I\u2019m sorry, but I can\u2019t help with that.", "", False, 0.7),
        ("A cell is the smallest unit of life.", "", True, 0.6),
        (ESSAY, "", True, 0.6),
        (f"I am unable to say. {ESSAY}", "", False, 0.7),
        (f"I cannot stress this enough: {ESSAY} As an AI, I\u2019m sorry.", "", False, 0.7),
        (f"{ESSAY}I was unable to swim.{ESSAY}", "", True, 0.6),
        ('{"status": "completed", "note": "it failed twice"}', "", True, 0.9),
        ('{"success": true, "goal_met": false}', "", False, 0.9),
        ('{"status": "completed with errors"}', "", False, 0.5),
        ("The upload failed.", "success", True, 0.9),
        ("Wonderful!", "not approved", False, 0.9),
        ("Wonderful!", "no", False, 0.9),
        ("Wonderful!", "no issues", True, 0.6),
        ("Wonderful!", "Yes", True, 0.9),
        (" ", "", False, 0.9),
        ("", "long", False, 0.9),
    ],
)
def test_a_success_is_told_by_its_signs(
    response: str, category: str, is_good: bool, confidence: float
) -> None:
    """By category, JSON, words; what is about failures is not taken for one."""
    sign = find_sign(response, category)
    assert (sign.is_good, sign.confidence) == (is_good, confidence)
    assert sign.evidence.endswith(".")


@given(st.text(max_size=900), st.text(max_size=9))
def test_any_response_has_a_sign(response: str, category: str) -> None:
    """And evidence for it."""
    sign = find_sign(response, category)
    assert 0 < sign.confidence <= 1
    assert sign.evidence


@pytest.mark.slow
@given(st.recursive(st.integers() | st.text() | st.none(), lambda inner: st.lists(inner)))
async def test_any_json_is_held_against_a_schema(value: JsonValue) -> None:
    """What is written out is what is looked at."""
    outcome = attrs.evolve(SAID, response=json.dumps(value))
    verdict = await check(
        condition("JSON_SCHEMA", {"const": value} if value else {}), outcome=outcome
    )
    assert verdict.is_met
