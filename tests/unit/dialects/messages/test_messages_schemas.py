"""Schemas that the vendor would reject are adapted, with a loss."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.dialects.messages import Quirks, nativize_request, normalize_request
from vibe_llms.dialects.messages.calling.schemas import can_be_enforced, make_enforceable
from vibe_llms.exceptions import CapabilityError, RequestError
from vibe_llms.instruments.parsers.modes import Mode
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.integrators import ModelsIntegrator

MODEL = ModelsIntegrator(provider="p").integrate("m", facts={"output_limit_tokens": 9})
NAMED: dict[str, Any] = {"properties": {"name": {"type": "string"}}}
OPEN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "minimum": 0, "description": "In years."},
        "names": {"type": "array", "minItems": 2, "items": {"type": "string", "maxLength": 9}},
        "at": {"oneOf": [{"$ref": "#/$defs/place"}, {"type": ["object", "null"], **NAMED}]},
        "minimum": {"type": "string", "format": "date"},
    },
    "$defs": {"place": {"properties": {"x": {"type": "number", "format": "float"}}}},
    "additionalProperties": {"type": "string"},
}
CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "description": 'In years.\n\n{"minimum":0}'},
        "names": {
            "type": "array",
            "items": {"type": "string", "description": '{"maxLength":9}'},
            "description": '{"minItems":2}',
        },
        "at": {
            "anyOf": [
                {"$ref": "#/$defs/place"},
                {"type": ["object", "null"], **NAMED, "additionalProperties": False},
            ]
        },
        "minimum": {"type": "string", "format": "date"},
    },
    "$defs": {
        "place": {
            "properties": {"x": {"type": "number", "description": '{"format":"float"}'}},
            "additionalProperties": False,
        }
    },
    "additionalProperties": False,
}


def test_an_open_schema_is_sent_closed() -> None:
    """The model is told the constraints that cannot be enforced; the rest does not change."""
    written = nativize_request(Request(canisters=[UserCanister("?")], schema=OPEN), MODEL, Quirks())
    assert written.value["output_config"]["format"]["schema"] == CLOSED
    assert [loss.path for loss in written.losses] == ["schema"]


def test_a_closed_schema_does_not_change() -> None:
    request = Request(canisters=[UserCanister("?")], schema=CLOSED)
    written = nativize_request(request, MODEL, Quirks())
    assert written.value["output_config"]["format"]["schema"] == CLOSED
    assert written.losses == ()


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {}}])
def test_any_object_cannot_be_requested(schema: dict[str, Any]) -> None:
    """Unlike JSON mode of other vendors: a closed schema without properties allows only an empty
    object.
    """
    request = Request(canisters=[UserCanister("?")], schema=schema)
    written = nativize_request(request, MODEL, Quirks())
    assert "output_config" not in written.value
    assert [loss.path for loss in written.losses] == ["schema"]


def test_a_function_with_an_unsupported_schema_is_not_enforced() -> None:
    for schema, strict in ((OPEN, None), (CLOSED, True)):
        tool = InvocableDescription(name="f", description="d", schema=schema, enforced=True)
        request = Request(canisters=[UserCanister("?")], invocables=[tool])
        written = nativize_request(request, MODEL, Quirks())
        assert written.value["tools"][0].get("strict") is strict
        assert written.value["tools"][0]["input_schema"] == schema
        paths = [loss.path for loss in written.losses]
        assert paths == ([] if strict else ["invocables[0].enforced"])


def test_a_schema_of_the_vendors_own_client_does_not_change() -> None:
    body = {
        "messages": [{"role": "user", "content": "?"}],
        "max_tokens": 9,
        "tools": [{"name": "f", "description": "d", "input_schema": OPEN, "strict": True}],
        "output_config": {"format": {"type": "json_schema", "schema": OPEN}},
    }
    written = nativize_request(normalize_request(body, MODEL).value, MODEL, Quirks())
    assert written.value["output_config"] == body["output_config"]
    assert written.value["tools"] == body["tools"]
    assert written.losses == ()


SCHEMAS = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "integer", "maximum": 3}, {"type": "object"}]),
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"properties": st.dictionaries(st.sampled_from(["a", "items"]), inner, max_size=2)}
        ),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, max_size=2)}),
    ),
    max_leaves=6,
)


@given(SCHEMAS)
def test_an_adapted_schema_is_valid(schema: dict[str, Any]) -> None:
    assert can_be_enforced(make_enforceable(schema))


MAPS: list[dict[str, Any]] = [
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": True}}},
    {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/b"}},
        "$defs": {"b": {"type": "object"}},
    },
]
RECURSIVE: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"$ref": "#"}}},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/b"}},
        "$defs": {
            "b": {"type": "object", "properties": {"c": {"$ref": "#/$defs/c"}}},
            "c": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}},
        },
    },
]


@pytest.mark.parametrize("schema", MAPS + RECURSIVE, ids=repr)
def test_a_schema_that_would_allow_nothing_is_rejected(schema: dict[str, Any]) -> None:
    """A closed map allows only an empty object, and the vendor rejects recursive schemas."""
    with pytest.raises(RequestError, match="Use a Parser"):
        nativize_request(Request(canisters=[UserCanister("?")], schema=schema), MODEL, Quirks())


@pytest.mark.parametrize("schema", MAPS + RECURSIVE, ids=repr)
def test_a_parser_uses_a_tool_call_if_the_vendor_cannot_enforce_the_schema(
    schema: dict[str, Any],
) -> None:
    """And tells why; a parser that must use the schema raises an error."""
    facts = {"supports_schema": "yes", "supports_invocations": "yes"}
    integrator = Catalogue().access_integrator("anthropic")
    attributes = integrator.integrate("claude-opus-4-5", facts=facts)
    other = Catalogue().access_integrator("openai_responses").integrate("gpt-5")
    plain = {"type": "object", **NAMED}

    choice = Parser(schema).choose(attributes)

    assert choice.mode is Mode.TOOL
    assert "schemas that refer to themselves" in choice.reason or "with maps" in choice.reason
    assert Parser(plain).choose(attributes).mode is Mode.NATIVE
    assert Parser(schema).choose(other).mode is Mode.NATIVE
    with pytest.raises(CapabilityError, match="supports_schema_with"):
        Parser(schema, mode="native").choose(attributes)
