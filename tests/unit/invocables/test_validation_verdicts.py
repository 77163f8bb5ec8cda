"""The verdict is jsonschema's, and the words are such that a model can act on them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from vibe_llms.exceptions import RequestError
from vibe_llms.invocables import produce_validator
from vibe_llms.invocables.schema_compiler import compile_check

NAMES = st.sampled_from(["a", "b", "c"])
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
NUMBERS = st.integers(-2, 3) | st.sampled_from([0.5, 1.0, 1.5])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)


def nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Makes schemas with schemas in them; usual keywords, and some unusual ones."""
    keywords = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
        "properties": st.dictionaries(NAMES, inner, max_size=2),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": inner,
        "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "oneOf": st.lists(inner, min_size=1, max_size=2),
        "not": inner,
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minimum": NUMBERS,
        "exclusiveMaximum": NUMBERS,
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^a", "b$"]),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "maxProperties": st.integers(0, 2),
        "patternProperties": st.dictionaries(st.just("^a"), inner, max_size=1),
        "title": st.just("words"),
        "format": st.just("email"),
    }
    pairs = st.sampled_from(sorted(keywords)).flatmap(
        lambda name: st.tuples(st.just(name), keywords[name])
    )
    return st.lists(pairs, max_size=3).map(dict)


SCHEMAS = st.recursive(st.booleans() | st.builds(dict), nest, max_leaves=6)


@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), VALUES)
def test_the_verdict_is_that_of_jsonschema(schema: dict[str, Any], value: Any) -> None:
    """Whatever checks first, what passes is what jsonschema lets pass."""
    assert (produce_validator(schema).check(value) == ()) == Draft202012Validator(schema).is_valid(
        value
    )


@given(SCHEMAS, VALUES)
def test_a_compiled_check_never_says_yes_wrongly(schema: Any, value: Any) -> None:
    """A yes of the fast way is final, so it has to be right."""
    check = compile_check(schema)
    if check is not None and check(value):
        assert Draft202012Validator(schema).is_valid(value)


def test_the_usual_schemas_are_compiled() -> None:
    """The fast way is open for what functions and tools usually have."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "place": {"type": "string", "description": "A town.", "minLength": 1},
            "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
            "days": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        },
        "required": ["place"],
        "additionalProperties": False,
    }
    check = compile_check(schema)

    assert check is not None
    assert check({"place": "Rome", "unit": "c", "days": None, "tags": ["a"]})
    assert not check({"place": "Rome", "plaec": "x"})


def test_arguments_that_fit_do_not_load_jsonschema() -> None:
    """A run in which the model makes no mistake never imports it."""
    code = (
        "import sys\n"
        "from vibe_llms.invocables import produce_validator\n"
        "schema = {'type': 'object', 'properties': {'a': {'type': 'string'}}}\n"
        "assert produce_validator(schema).check({'a': 'b'}) == ()\n"
        "assert 'jsonschema' not in sys.modules\n"
        "assert produce_validator(schema).check({'a': 1}) != ()\n"
        "assert 'jsonschema' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


WEATHER = {
    "type": "object",
    "properties": {
        "place": {"type": "string"},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "spots": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "properties": {"lat": {"type": "number", "maximum": 90}},
                        "required": ["lat"],
                    },
                ]
            },
        },
    },
    "required": ["place"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "arguments.place: is required"),
        ({"plaec": "x"}, "arguments.plaec: is not known; did you mean 'place'?"),
        (
            {"plaec": "x"},
            "arguments.place: is required; 'plaec' was given, which is unknown",
        ),
        ({"place": 1}, "arguments.place: must be a string, not 1"),
        (
            {"place": "x", "unit": "celcius"},
            'arguments.unit: must be one of "celsius", "fahrenheit", not "celcius";'
            ' did you mean "celsius"?',
        ),
        (
            {"place": "x", "days": "two"},
            'arguments.days: must be an integer or null, not "two"',
        ),
        (
            {"place": "x", "spots": [{"lat": 1}, {"lat": 91}]},
            "arguments.spots[1].lat: must be at most 90, not 91",
        ),
        ([], "arguments: must be an object, not []"),
    ],
)
def test_a_fault_names_place_rule_and_what_was_given(arguments: Any, words: str) -> None:
    """The model can mend its call with nothing but these lines."""
    faults = [str(fault) for fault in produce_validator(WEATHER).check(arguments)]
    assert words in faults


def test_faults_are_bounded() -> None:
    """Many and long mistakes make a short answer."""
    arguments = {f"name{index}": "x" * 10_000 for index in range(1_000)}
    faults = produce_validator(WEATHER).check({**arguments, "place": ["x" * 10_000]})

    assert 1 <= len(faults) <= 10
    assert sum(len(str(fault)) for fault in faults) < 5_000


def test_a_schema_names_its_own_draft() -> None:
    """What an older draft means by a keyword holds for a schema of that draft."""
    tuples = {"items": [{"type": "string"}], "additionalItems": False}
    old = {"$schema": "http://json-schema.org/draft-07/schema#", **tuples}

    assert produce_validator(old).check(["a"]) == ()
    assert produce_validator(old).check(["a", "b"]) != ()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strin"},
        {"properties": []},
        {"$ref": "https://example.invalid/schema.json"},
        {"$ref": "#/$defs/nothing"},
        {"pattern": "("},
    ],
)
def test_a_broken_schema_is_refused_and_nothing_is_fetched(schema: dict[str, Any]) -> None:
    """A schema that cannot be applied is an error that says so, not a fault of the model."""
    with pytest.raises(RequestError, match="schema"):
        produce_validator(schema).check("value")


def test_data_that_nest_without_end_are_a_fault() -> None:
    """A value that would exhaust the stack is refused like any other."""
    schema = {"$ref": "#/$defs/list", "$defs": {"list": {"items": {"$ref": "#/$defs/list"}}}}
    value: list[Any] = []
    for _ in range(5_000):
        value = [value]

    faults = produce_validator(schema).check(value)
    assert [str(fault) for fault in faults] == ["arguments: nest too deeply"]
