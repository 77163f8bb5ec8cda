"""Values out of what models answer: which way is taken, what is read, how a fault is mended."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from typing import Annotated, Any, Literal, NamedTuple

import attrs
import pydantic
import pytest
from jsonschema import Draft202012Validator
from typing_extensions import TypedDict

from support.runs.scripting import produce_model
from vibe_llms.dialects.chat_completions.calling import invocations as chat
from vibe_llms.dialects.responses.calling import invocations as responses
from vibe_llms.exceptions import CapabilityError, ParseError, RequestError
from vibe_llms.instruments.parsers.dialogue import Dialogue, ParseAttempt, Parsed
from vibe_llms.instruments.parsers.modes import Mode
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.invocables.call_execution import perform
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    StopReason,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import ReasoningContent, TextualContent
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import text_of, usage_of
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.catalogue import Catalogue


class Climate(enum.Enum):
    MILD = "mild"
    HARSH = "harsh"


@attrs.frozen
class City:
    """A place where many live."""

    name: str
    people: int
    climate: Climate | None = None


@dataclasses.dataclass
class Trip:
    day: datetime.date
    places: list[City]


class Point(NamedTuple):
    x: float
    y: float


class Options(TypedDict, total=False):
    loud: bool


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0)

    @pydantic.field_validator("name")
    @classmethod
    def is_known(cls, value: str, info: pydantic.ValidationInfo) -> str:
        if info.context and value not in info.context:
            raise ValueError("is nobody we know")
        return value


def produce_attributes(**facts: Any) -> ModelAttributes:
    """What is known of a model whose capabilities somebody has told."""
    return Catalogue().access_integrator("nowhere").integrate("m", facts=facts)


def parse(parser: Parser[Any], *responses: dict[str, Any], **facts: Any) -> Dialogue[Any]:
    """Begins a dialogue with a model of these capabilities."""
    request = Request(canisters=[SupervisorCanister("Be brief."), UserCanister("Paris?")])
    composed, choice = parser.compose(request, produce_attributes(**facts))
    return Dialogue(parser=parser, request=composed, choice=choice)


def say(text: str, **fields: Any) -> dict[str, Any]:
    return {"contents": [{"text": text}], **fields}


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"contents": [{"invocation": {"id": "c1", "name": name, "arguments": arguments}}]}


USAGE = {"input_tokens": 10, "output_tokens": 5}
PARIS = '{"name": "Paris", "people": 2102650}'


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (City, PARIS, City("Paris", 2102650)),
        (
            Trip,
            '{"day": "2026-01-31", "places": [{"name": "A", "people": 1, "climate": "mild"}]}',
            Trip(datetime.date(2026, 1, 31), [City("A", 1, Climate.MILD)]),
        ),
        (Point, '{"x": 1, "y": 2.5}', Point(1.0, 2.5)),
        (Options, '{"loud": true}', {"loud": True}),
        (Person, '{"name": "Ann", "age": 3}', Person(name="Ann", age=3)),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (list[City], f'{{"value": [{PARIS}]}}', [City("Paris", 2102650)]),
        (City | None, '{"value": null}', None),
        (City | Point, '{"value": {"x": 0, "y": 1}}', Point(0, 1)),
        (Literal["yes", "no"], '{"value": "no"}', "no"),
        (Climate, '{"value": "harsh"}', Climate.HARSH),
        (int, '{"value": 3}', 3),
        (str, '{"value": "x"}', "x"),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Annotated[int, "How many."], '{"value": 3}', 3),
        ({"type": "object", "required": ["a"]}, '{"a": [1]}', {"a": [1]}),
        ({"type": "array", "items": {"type": "integer"}}, '{"value": [1]}', [1]),
    ],
)
def test_an_answer_becomes_a_value_of_any_kind(kind: Any, written: str, value: Any) -> None:
    """Classes, lists of them, unions, plain types, JSON Schemas; the schema is of an object."""
    parser = Parser[Any](kind)

    assert parser.schema["type"] == "object"
    assert parser.read(written) == value


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (f"Here it is:\n```json\n{PARIS}\n```\nAnything else?", City, City("Paris", 2102650)),
        (f"Sure {{name}}! {PARIS} Enjoy.", City, City("Paris", 2102650)),
        ('{"name": "Paris", "people": 2102650,}', City, City("Paris", 2102650)),
        (f"{PARIS} is what I said: {PARIS}", City, City("Paris", 2102650)),
        (f'Not {{"a": 1}} but {PARIS}', City, City("Paris", 2102650)),
        ("[1, 2]", list[int], [1, 2]),
        ("The list: [1, 2]", list[int], [1, 2]),
        ("3", int, 3),
    ],
)
def test_a_value_is_found_in_a_text_where_it_is_clear(text: str, kind: Any, value: Any) -> None:
    """A fence, prose around it, a comma too many, the object around it forgotten."""
    assert Parser[Any](kind).read(text) == value


def test_the_result_of_a_vendors_tool_is_not_the_answer() -> None:
    """It may be JSON, too, and comes first."""
    city = '{{"name": "{}", "people": 3}}'
    turn = [
        InvocationCanister(invocation_id="1", name="code_execution", owner=Owner.VENDOR),
        ResultCanister(city.format("Rome"), invocation_id="1", owner=Owner.VENDOR),
        AssistantCanister(city.format("Oslo")),
    ]

    assert Parser(City).read(turn) == City("Oslo", 3)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "answer: is empty"),
        ("Paris it is", "answer: contains no JSON: Paris it is"),
        ('{"name": "Paris" "people": 1}', "is not valid JSON: '\"' instead of ',' or '}'"),
        ('{"name": "Paris", "people": 1', "the text is truncated"),
        (f'{PARIS} or {{"name": "Rome", "people": 2}}', "contains 2 different JSON values"),
        ('{"name": "Paris"}', "answer.people: is required"),
        ('{"name": "Paris", "people": "many"}', 'answer.people: must be an integer, not "many"'),
        ('{"name": "P", "people": 1, "clime": 1}', "answer.clime: is not known"),
        (f"{PARIS} NaN", None),
    ],
)
def test_what_does_not_fit_is_told_with_place_rule_and_what_was_given(
    text: str, fault: str | None
) -> None:
    """Nothing is guessed where more than one thing could be meant."""
    if fault is None:
        assert Parser(City).read(text)
        return
    with pytest.raises(ParseError) as caught:
        Parser(City).read(text)

    assert fault in "; ".join(caught.value.faults)
    assert caught.value.text == text


def test_what_a_schema_cannot_say_is_told_by_the_class() -> None:
    """Each fault that pydantic finds, a date that does not exist, a check of one's own."""

    def is_large(city: City) -> None:
        if city.people < 1000:
            raise ValueError(f"{city.name} is no city")

    faults = {}
    for name, parser, text in (
        ("pydantic", Parser(Person, context=["Bob"]), '{"name": "Ann", "age": -1}'),
        ("date", Parser[Any](list[datetime.date]), '{"value": ["2026-02-30"]}'),
        ("check", Parser(City, check=is_large), '{"name": "Hamlet", "people": 3}'),
    ):
        with pytest.raises(ParseError) as caught:
            parser.read(text)
        faults[name] = caught.value.faults

    assert faults["pydantic"] == ("answer.age: must be at least 0, not -1",)
    assert faults["date"] == ('answer.value[0]: must be a date: 2026-01-31; got "2026-02-30"',)
    assert "Hamlet is no city" in faults["check"][0]
    with pytest.raises(ParseError, match=r'answer.name: .*is nobody we know; got "Ann"'):
        Parser(Person, context=["Bob"]).read('{"name": "Ann", "age": 1}')
    assert Parser(Person, context=["Ann"]).read('{"name": "Ann", "age": 1}').age == 1


@pytest.mark.parametrize(
    ("facts", "mode", "words"),
    [
        ({"supports_schema": "yes"}, Mode.NATIVE, "supports schemas (vendor"),
        (
            {"supports_schema": "no", "supports_invocations": "yes"},
            Mode.TOOL,
            "does not support schemas, but it can invoke tools",
        ),
        ({"supports_invocations": "yes"}, Mode.TOOL, "It is unknown if nowhere:m supports"),
        ({"supports_schema": "no"}, Mode.PROMPT, "not known to be able to invoke tools"),
        ({"supports_invocations": "no"}, Mode.PROMPT, "it is not able to invoke tools"),
        ({}, Mode.PROMPT, "It is unknown if"),
    ],
)
def test_the_way_is_chosen_by_what_the_model_is_capable_of(
    facts: dict[str, Any], mode: Mode, words: str
) -> None:
    """And the reason is told."""
    choice = Parser(City).choose(produce_attributes(**facts))

    assert choice.mode is mode
    assert words in choice.reason


def test_tools_beside_it_can_decide_the_way() -> None:
    """Some models take a schema or tools, not both."""
    apart = {
        "supports_schema": "yes",
        "supports_invocations": "yes",
        "supports_schema_with_invocations": "no",
    }
    attributes = produce_attributes(**apart)

    assert Parser(City).choose(attributes).mode is Mode.NATIVE
    choice = Parser(City).choose(attributes, has_tools=True)
    assert choice.mode is Mode.TOOL
    assert "does not support schemas while it has tools" in choice.reason


def test_a_way_can_be_asked_for_unless_it_is_known_to_lead_nowhere() -> None:
    """Unknown is not no."""
    assert Parser(City, mode="native").choose(produce_attributes()).mode is Mode.NATIVE
    with pytest.raises(CapabilityError, match="supports_schema is no"):
        Parser(City, mode="native").choose(produce_attributes(supports_schema="no"))


def test_each_way_makes_another_request() -> None:
    """A schema; one tool that must be called; instructions behind those that were there."""
    parser = Parser(City)
    native = parse(parser, supports_schema="yes").request
    tool = parse(parser, supports_invocations="yes").request
    prompt = parse(parser).request

    assert native.schema == parser.kind.sent_schema
    assert (tool.invocables[0].name, tool.invocation_choice) == ("City", "City")
    assert tool.invocables[0].description == "A place where many live."
    assert [text_of(each)[:10] for each in prompt.canisters] == [
        "Be brief.",
        "Answer wit",
        "Paris?",
    ]
    assert json.dumps(parser.schema) in text_of(prompt.canisters[1])


async def test_an_answer_that_does_not_fit_is_mended() -> None:
    """The fault is quoted, the mended answer is taken, and both are paid for."""
    heard: list[ParseAttempt] = []
    model = produce_model(say('{"name": "Paris"}', usage=USAGE), say(PARIS, usage=USAGE))
    dialogue = parse(Parser(City), supports_schema="yes")
    dialogue.listener = heard.append

    parsed: Parsed[City] = await dialogue.converse(model.converse)

    assert parsed.value == City("Paris", 2102650)
    assert parsed.choice.mode is Mode.NATIVE
    assert parsed.response.text == PARIS
    assert parsed.usage is not None
    assert (parsed.usage.input_tokens, parsed.usage.output_tokens) == (20, 10)
    assert [loss.path for loss in parsed.losses] == ["schema"]
    assert [(each.number, each.is_last, len(each.faults)) for each in heard] == [
        (1, False, 1),
        (2, True, 0),
    ]
    question = parsed.response.request.canisters[-1]
    assert isinstance(question, UserCanister)
    assert "- answer.people: is required" in text_of(question)


async def test_a_call_that_does_not_fit_is_mended_by_its_result() -> None:
    """As a tool the answer is refused, as any tool refuses what does not fit."""
    model = produce_model(call("City", '{"name": 1, "people": 2}'), call("City", PARIS))

    parsed = await parse(Parser(City), supports_invocations="yes").converse(model.converse)

    result = parsed.response.request.canisters[-1]
    assert parsed.value == City("Paris", 2102650)
    assert isinstance(result, ResultCanister)
    assert result.is_error
    assert "- answer.name: must be a string, not 1" in text_of(result)
    assert "Call City again" in text_of(result)


async def test_there_are_so_many_attempts_and_no_more() -> None:
    """The error has the text that arrived, what is wrong with it, and what was used."""
    model = produce_model(say("no", usage=USAGE))

    with pytest.raises(
        ParseError, match="after 2 attempts: answer: contains no JSON: no"
    ) as caught:
        await parse(Parser(City, attempts=2)).converse(model.converse)

    error = caught.value
    used = usage_of(error.arrived)
    assert (error.attempts, error.text, error.kind) == (2, "no", "City")
    assert used is not None
    assert used.output_tokens == 10


@pytest.mark.parametrize(
    ("response", "advice"),
    [
        (say('{"name": "Pa', stop_reason="limit"), "raise max_tokens"),
        ({"contents": [{"refusal": "I will not."}]}, "The model refused"),
        ({"contents": [], "stop_reason": "failed"}, "complete the answer: failed. Ask again."),
        ({"contents": [], "stop_reason": "filtered"}, "refused: filtered. Ask otherwise."),
    ],
)
async def test_what_was_cut_off_or_refused_is_not_asked_for_again(
    response: dict[str, Any], advice: str
) -> None:
    """It would break off again, and cost as much."""
    with pytest.raises(ParseError, match=advice) as caught:
        await parse(Parser(City)).converse(produce_model(response).converse)

    assert caught.value.attempts == 1


async def test_a_whole_answer_is_taken_wherever_it_was_cut_off() -> None:
    """What matters is whether it fits."""
    model = produce_model(say(PARIS, stop_reason="limit"))

    parsed = await parse(Parser(City)).converse(model.converse)

    assert parsed.response.metadata.stop_reason is StopReason.LIMIT


def test_reasoning_is_no_answer_and_two_calls_are_none() -> None:
    """Only what was said counts, and it has to be one thing."""
    thought = AssistantCanister([ReasoningContent(text='{"a": 1}'), TextualContent(PARIS)])
    calls = [
        InvocationCanister(invocation_id=f"c{people}", name="City", arguments=arguments)
        for people in (1, 2)
        for arguments in [json.dumps({"name": "x", "people": people})]
    ]

    assert Parser(City).read([thought]).name == "Paris"
    assert Parser(City).read(calls[:1]).people == 1
    with pytest.raises(ParseError, match="was given 2 times"):
        Parser(City).read(calls)


async def test_an_invoker_takes_the_answer_and_ends_a_run() -> None:
    """It refuses what does not fit in the words of all invokers."""
    invoker = Parser(Person, context=["Ann"]).produce_invoker()

    taken = await perform(invoker, {"name": "Ann", "age": 3}, InvocationContext())
    refused = await perform(invoker, {"name": "Bob", "age": 3}, InvocationContext())

    assert invoker.is_final
    assert not taken.is_error
    assert refused.is_error
    assert "is nobody we know" in refused.text


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Parser(City, attempts=0), "at least 1, not 0"),
        (
            lambda: Parser(City, mode="magic"),  # type: ignore[call-overload]
            "Unknown mode 'magic'",
        ),
        (lambda: Parser[Any](complex), "has no counterpart in JSON"),
        (
            lambda: Parser(City).compose(
                Request(canisters=[UserCanister("x")], schema={}), produce_attributes()
            ),
            "cannot have its own schema",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(build: Any, words: str) -> None:
    """Before anything is sent."""
    with pytest.raises(RequestError, match=words):
        build()


def test_what_refers_to_the_root_of_a_schema_goes_with_it() -> None:
    """A schema of anything but an object is put into one."""
    schema = {
        "anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"$ref": "#/$defs/leaf"}],
        "$defs": {"leaf": {"type": "integer"}},
    }

    parser = Parser[Any](schema)

    assert parser.read('{"value": [1, [2, [3]]]}') == [1, [2, [3]]]
    with pytest.raises(ParseError):
        parser.read('{"value": [1, ["x"]]}')


class Team(pydantic.BaseModel):
    """Holds others, some of them optional, and itself."""

    name: str = pydantic.Field(default="none", description="What it is called.")
    lead: Person | None = pydantic.Field(None, description="Who leads it.")
    members: list[Person] = []
    parts: list[Team] = []


@attrs.frozen
class Options:
    """Has what need not be given."""

    loud: bool = False
    words: tuple[str, ...] = ()


@pytest.mark.parametrize("kind", [City, Person, Team, Options, list[Person], Person | None])
def test_what_is_asked_for_can_be_enforced(kind: Any) -> None:
    """All is asked for, with or without a default, and nothing else; what is answered fits."""
    parser = Parser[Any](kind)
    schemas = [parser.kind.sent_schema]
    bodies = [chat.nativize_schema(parser.kind.sent_schema).value]
    bodies.append(responses.nativize_schema(parser.kind.sent_schema))

    assert all('"strict": true' in json.dumps(body) for body in bodies)
    assert '"default"' not in json.dumps(schemas)
    for schema in schemas:
        Draft202012Validator.check_schema(schema)


def test_what_was_asked_for_may_be_left_out() -> None:
    """A model that cannot be held to all of it is not corrected for what has a default."""
    assert Parser(Options).read('{"loud": true}') == Options(loud=True)
    assert Parser(Team).read('{"name": "a", "lead": null}') == Team(name="a")
    whole = '{"name": "a", "lead": {"name": "b", "age": 1}, "members": [], "parts": []}'
    assert Draft202012Validator(Parser(Team).kind.sent_schema).is_valid(json.loads(whole))
    assert Parser(Team).read(whole) == Team(name="a", lead=Person(name="b", age=1))


@pytest.mark.parametrize(
    "kind", [dict[str, int], set[str], tuple[int, str], Any, {"type": "object"}]
)
def test_what_cannot_be_enforced_is_not_promised(kind: Any) -> None:
    """Maps, sets, tuples and anything: the vendor refuses to hold a model to these."""
    schema = Parser[Any](kind).kind.sent_schema

    assert '"strict": true' not in json.dumps(chat.nativize_schema(schema).value)
    assert '"strict": true' not in json.dumps(responses.nativize_schema(schema))
