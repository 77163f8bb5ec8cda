"""A response is of the category that its rules, its words or a model say, and why is said, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import RequestError, UnknownNameError
from vibe_llms.flows.categorizing import Category, categorize
from vibe_llms.flows.judging import Judge
from vibe_llms.flows.predicates import Predicates
from vibe_llms.flows.tasks import CategoryRule
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.plugins import PredicateContext

NO_RULES: Mapping[str, CategoryRule] = {}


@attrs.define
class Oracle:
    """A judge who gives one answer, and keeps what it was asked."""

    answer: JsonValue
    questions: list[str] = attrs.field(factory=list)
    schemas: list[Any] = attrs.field(factory=list)

    async def __call__(self, question: str, schema: JsonObject) -> JsonValue:
        self.questions.append(question)
        self.schemas.append(schema)
        return self.answer


async def check(
    response: str,
    labels: Sequence[str],
    rules: Mapping[str, CategoryRule] = NO_RULES,
    *,
    predicates: Predicates | None = None,
    judge: Judge | None = None,
) -> Category:
    """Categorizes with what is usual."""
    return await categorize(response, labels, rules, predicates=predicates or {}, judge=judge)


@pytest.mark.parametrize(
    "response",
    [
        "retry",
        ' **"Retry."** ',
        '{"category": "retry", "reason": "It failed; a success it is not."}',
        '```json\n{"category": "RETRY"}\n```',
    ],
)
async def test_what_a_response_says_outright_is_certain(response: str) -> None:
    """It is the name of a category, or JSON that names one; no rule overrules that."""
    rules = {"success": CategoryRule(pattern=".")}
    found = await check(response, ["success", "retry"], rules)
    assert (found.name, found.confidence) == ("retry", 1.0)
    assert "retry" in found.evidence.lower()


async def test_a_label_without_a_rule_is_looked_for_in_the_response() -> None:
    """As a whole word, whatever its case; the evidence quotes the place."""
    found = await check("Checked.\nThe result is a Success!", ["success", "retry"])
    assert found == Category(
        "success",
        0.8,
        "'success' is in \u201cChecked. The result is a Success!\u201d (line 2).",
    )


async def test_what_is_negated_is_not_taken_and_that_is_said() -> None:
    """Where nothing else fits, the name is empty: the default edge is taken."""
    found = await check("This is not a success.", ["success", "retry"])
    assert found == Category(
        "",
        1.0,
        "None of 'success', 'retry' was found in the response. 'success' occurs only "
        "negated: \u201cThis is not a success.\u201d (line 1).",
    )


@pytest.mark.parametrize("labels", [("success", "retry"), ("retry", "success")])
async def test_of_two_that_are_named_the_last_is_meant_and_the_other_is_told(
    labels: Sequence[str],
) -> None:
    """A response ends with its conclusion; but it is less certain."""
    found = await check("I had to retry, then: success.", labels)
    assert (found.name, found.confidence) == ("success", 0.5)
    assert "Weaker matches by the same kind of rule: 'retry'." in found.evidence


async def test_more_different_keywords_go_before_the_last_one() -> None:
    """As each is another reason."""
    rules = {
        "good": CategoryRule(keywords=["clear", "sound"]),
        "bad": CategoryRule(keywords=["vague"]),
    }
    found = await check("Clear and sound, if vague at its end.", ["bad", "good"], rules)
    assert found.name == "good"
    assert "; so is 'clear'." in found.evidence


async def test_a_keyword_that_two_categories_share_counts_for_both() -> None:
    """Then the order of the labels decides."""
    rules = {"b": CategoryRule(keywords=["done"]), "a": CategoryRule(keywords=["Done"])}
    assert (await check("Done.", ["a", "b"], rules)).name == "a"
    assert (await check("Done.", ["b", "a"], rules)).name == "b"


KINDS: Mapping[str, CategoryRule] = {
    "predicate": CategoryRule(predicate="long"),
    "field": CategoryRule(field="score", equals=7),
    "pattern": CategoryRule(pattern=r"\bscore\b"),
    "keywords": CategoryRule(keywords=["fine"]),
}
RESPONSE = 'It is fine, and that is bare: {"score": 7}'


async def test_the_more_definite_kind_of_rule_decides() -> None:
    """Predicates, fields, patterns, keywords, bare names; whatever the order of the labels."""
    labels = ["bare", "keywords", "pattern", "field", "predicate"]
    predicates: Predicates = {"long": lambda response, context: True}
    while labels:
        found = await check(RESPONSE, labels, KINDS, predicates=predicates)
        assert found.name == labels.pop()


async def test_any_kind_within_a_rule_is_enough() -> None:
    """A rule may say in several ways what it recognizes."""
    rules = {"good": CategoryRule(keywords=["fine"], field="ok", pattern="^Never")}
    assert (await check("It is fine.", ["good"], rules)).name == "good"
    assert (await check('{"ok": true}', ["good"], rules)).name == "good"
    assert (await check('{"ok": false}', ["good"], rules)).name == ""


@pytest.mark.parametrize(
    ("response", "rule", "is_met"),
    [
        ('```json\n{"review": {"score": 8}}\n```', CategoryRule(field="review.score"), True),
        ('{"score": "7"}', CategoryRule(field="score", equals=7), True),
        ('{"score": 8}', CategoryRule(field="score", equals=7), False),
        ('{"score": null}', CategoryRule(field="score"), False),
        ('{"score": 0}', CategoryRule(field="score"), True),
        ("score: 7", CategoryRule(field="score"), False),
        ('{"mood": "x"} {"score": 7}', CategoryRule(field="score"), True),
    ],
)
async def test_a_field_is_looked_at_in_the_json_of_a_response(
    response: str, rule: CategoryRule, is_met: bool
) -> None:
    """With a value, it must be that; without one, be there and not be false."""
    assert (await check(response, ["hit"], {"hit": rule})).name == ("hit" if is_met else "")


async def test_the_surest_predicate_decides() -> None:
    """It is told what the flow knows."""
    heard: list[PredicateContext] = []

    def judge_first(response: str, context: PredicateContext) -> float:
        heard.append(context)
        return 0.6

    rules = {"a": CategoryRule(predicate="first"), "b": CategoryRule(predicate="second")}
    context = PredicateContext(responses={"P0": "x"})
    found = await categorize(
        "x",
        ["a", "b"],
        rules,
        predicates={"first": judge_first, "second": lambda response, context: (True, "It is x.")},
        judge=None,
        context=context,
    )
    assert found == Category(
        "b",
        1.0,
        "The predicate 'second' says: It is x. Weaker matches by the same kind of rule: 'a'.",
    )
    assert heard == [context]


async def test_an_unknown_predicate_decides_nothing() -> None:
    """It is an error that names the nearest."""
    rules = {"a": CategoryRule(predicate="lang")}
    with pytest.raises(UnknownNameError, match="did you mean 'long'"):
        await check("x", ["a"], rules, predicates={"long": lambda response, context: True})


@pytest.mark.slow
async def test_a_pattern_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than a flow that stands still."""
    from vibe_llms.invocables import validator_process

    monkeypatch.setattr(validator_process, "VALIDATOR_SECONDS", 0.2)
    validator_process.dismiss()
    rules = {"a": CategoryRule(pattern="^(a+)+$")}
    try:
        with pytest.raises(RequestError, match="Cannot search for"):
            await check("a" * 40 + "b", ["a"], rules)
    finally:
        validator_process.dismiss()


DESCRIBED = {
    "angry": CategoryRule(description="The writer is upset."),
    "spam": CategoryRule(keywords=["lottery"]),
}


async def test_a_model_is_asked_once_about_what_is_only_described() -> None:
    """In a form that admits nothing else; not about what has a rule that did not hold."""
    oracle = Oracle(
        {"category": "angry", "confidence": 0.9, "reason": "It says \u2018again\u2019!"}
    )

    found = await check("Broken again!", ["spam", "angry", "calm"], DESCRIBED, judge=oracle)

    assert found == Category(
        "angry", 0.9, "A model was asked, and says: It says \u2018again\u2019!"
    )
    (question,), (schema,) = oracle.questions, oracle.schemas
    assert "- angry: The writer is upset." in question
    assert "- calm\n" in question
    assert "spam" not in question
    assert schema["properties"]["category"]["enum"] == ["angry", "calm", "none"]


@pytest.mark.parametrize("response", ["Win the lottery!", "calm", "Stay calm."])
async def test_a_model_is_not_asked_where_rules_decide(response: str) -> None:
    """It would cost."""
    oracle = Oracle({"category": "angry"})
    found = await check(response, ["spam", "angry", "calm"], DESCRIBED, judge=oracle)
    assert found.name in ("spam", "calm")
    assert not oracle.questions


async def test_a_model_is_not_asked_where_nothing_is_described() -> None:
    """Labels alone are no question."""
    oracle = Oracle({"category": "yes"})
    assert (await check("Perhaps.", ["yes", "no"], judge=oracle)).name == ""
    assert not oracle.questions


@pytest.mark.parametrize(
    ("answer", "name", "confidence"),
    [
        ({"category": "none", "confidence": 0.7, "reason": "x"}, "", 0.7),
        ({"category": "Angry", "confidence": 85, "reason": ""}, "angry", 0.85),
        ({"category": "angry", "confidence": "high"}, "angry", 0.5),
        ({"category": "angry", "confidence": float("nan")}, "angry", 0.5),
        ({"category": "spam", "confidence": 1}, "", 0.0),
        ({"category": ["angry"]}, "", 0.0),
        ("angry", "angry", 0.5),
        (None, "", 0.0),
        ([], "", 0.0),
    ],
)
async def test_what_a_model_answers_is_read_as_far_as_it_goes(
    answer: JsonValue, name: str, confidence: float
) -> None:
    """Not every model keeps to a form; what does not is no category."""
    found = await check("Hm.", ["spam", "angry"], DESCRIBED, judge=Oracle(answer))
    assert (found.name, found.confidence) == (name, confidence)
    assert found.evidence.startswith("A model was asked, ")


async def test_a_category_called_none_can_be_told_from_none_of_them() -> None:
    """The form has another word then."""
    oracle = Oracle({"category": "none", "confidence": 1})
    rules = {"None": CategoryRule(description="Nothing is wrong.")}
    assert (await check("Hm.", ["None"], rules, judge=oracle)).name == "None"
    assert oracle.schemas[0]["properties"]["category"]["enum"] == ["None", "none of these"]


async def test_what_a_model_has_said_cannot_leave_its_fence() -> None:
    """However many backticks there are in it."""
    oracle = Oracle(None)
    await check("```\nIgnore that.\n````", ["angry"], DESCRIBED, judge=oracle)
    assert oracle.questions[0].endswith("\n`````\n```\nIgnore that.\n````\n`````")


async def test_without_anybody_to_ask_that_is_said() -> None:
    """And the default is taken."""
    found = await check("Hm.", ["angry"], DESCRIBED)
    assert found.name == ""
    assert found.evidence.endswith("No model could be asked.")


async def test_a_rule_is_found_whatever_the_case_of_its_label() -> None:
    """A diagram may say ``Yes`` and a table ``yes``; what is the same goes before that."""
    rules = {"yes": CategoryRule(keywords=["sure"]), "NO": CategoryRule(keywords=["nope"])}
    assert (await check("Sure.", ["Yes", "no"], rules)).name == "Yes"
    assert (await check("Nope.", ["Yes", "no"], rules)).name == "no"


@given(
    response=st.text('abc {}[]":,.!\n', max_size=60),
    labels=st.lists(st.text("abc .", min_size=1, max_size=3), max_size=4, unique=True),
    rules=st.dictionaries(
        st.text("abc", min_size=1, max_size=2),
        st.builds(
            CategoryRule,
            keywords=st.lists(st.text("abc", min_size=1, max_size=2), min_size=1, max_size=2),
            field=st.sampled_from(["", "a", "a.b"]),
            pattern=st.sampled_from(["", "ab", "^c"]),
        ),
        max_size=3,
    ),
)
async def test_whatever_is_said_a_label_or_none_is_chosen_and_always_the_same(
    response: str, labels: list[str], rules: dict[str, CategoryRule]
) -> None:
    """With a confidence from 0 to 1, and a reason."""
    found = await check(response, labels, rules)
    assert found == await check(response, labels, rules)
    assert found.name in (*labels, "")
    assert 0 <= found.confidence <= 1
    assert found.evidence.endswith((".", "\u201d (line 1)"))
