"""The parameters beside the messages of a request: controls, tools, choice and schema."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from support.vendors.messages_exchanges import CONTROLS, KNOWN
from vibe_llms.dialects.messages import (
    Quirks,
    nativize_request,
    normalize_controls,
    normalize_invocables,
    normalize_request,
)
from vibe_llms.dialects.messages.calling.controls import nativize_controls
from vibe_llms.dialects.messages.calling.invocations import nativize_invocables, nativize_schema
from vibe_llms.dialects.messages.serving.invocations import normalize_schema
from vibe_llms.exceptions import ControlError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.contents import Native
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.integrators import ModelsIntegrator

ADAPTIVE = ModelsIntegrator(provider="p").integrate(
    "m", facts={"supports_adaptive_reasoning": True, "controls": CONTROLS}
)


@pytest.mark.parametrize(
    ("controls", "native"),
    [
        ({"temperature": 0.5, "top_k": 3}, {"temperature": 0.5, "top_k": 3}),
        ({"stop": ["a"]}, {"stop_sequences": ["a"]}),
        ({"reasoning_effort": "high"}, {"output_config": {"effort": "high"}}),
        ({"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
        (
            {"reasoning_budget_tokens": 1024},
            {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        ),
        ({"service_tier": "auto"}, {"service_tier": "auto"}),
    ],
)
def test_controls_are_converted_in_both_directions(
    controls: dict[str, Any], native: dict[str, Any]
) -> None:
    """One control is one parameter."""
    assert nativize_controls(controls, KNOWN, Quirks()).value == native
    assert normalize_controls(native, KNOWN).value == controls
    assert normalize_controls(native).value == controls


def test_adaptive_thinking_is_on_if_an_effort_is_set() -> None:
    """And only then."""
    native = {"output_config": {"effort": "low"}, "thinking": {"type": "adaptive"}}
    assert nativize_controls({"reasoning_effort": "low"}, ADAPTIVE, Quirks()).value == native
    assert normalize_controls(native, ADAPTIVE).value == {"reasoning_effort": "low"}
    assert normalize_controls({"output_config": {"effort": "low"}}, ADAPTIVE).value == {}
    shown = {"thinking": {"type": "adaptive", "display": "summarized"}}
    assert nativize_controls({"reasoning_summary": "auto"}, ADAPTIVE, Quirks()).value == shown
    assert normalize_controls(shown, ADAPTIVE).value == {"reasoning_summary": "auto"}


def test_a_parameter_that_a_model_does_not_have_stays_native() -> None:
    """As a control it is rejected."""
    unknown = ModelsIntegrator(provider="p").integrate("m")
    native = {"messages": [{"role": "user", "content": "?"}], "temperature": 2, "max_tokens": 9}
    request = normalize_request(native, unknown).value
    assert request.controls == {}
    assert nativize_request(request, unknown, Quirks()).value["temperature"] == 2
    with pytest.raises(ControlError):
        nativize_controls({"temperature": 1}, unknown, Quirks())


def test_a_generated_token_limit_is_reported() -> None:
    """The protocol requires one; without a loss if the model's maximum is known."""
    unknown = ModelsIntegrator(provider="p").integrate("m")
    able = ModelsIntegrator(provider="p").integrate("m", facts={"output_limit_tokens": 64_000})
    request = Request(canisters=[UserCanister("?")])
    translation = nativize_request(request, unknown, Quirks(), streaming=True)
    assert translation.value["max_tokens"] == 4096
    assert [loss.path for loss in translation.losses] == ["controls.max_tokens"]
    assert translation.value["stream"] is True
    translation = nativize_request(request, able, Quirks())
    assert (translation.value["max_tokens"], translation.losses) == (64_000, ())


CLOSED: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}
TOOL = InvocableDescription(name="f", description="d", schema=CLOSED, enforced=True)


@pytest.mark.parametrize(
    ("choice", "native"),
    [
        ("auto", {}),
        ("none", {"tool_choice": {"type": "none"}}),
        ("required", {"tool_choice": {"type": "any"}}),
        ("f", {"tool_choice": {"type": "tool", "name": "f"}}),
    ],
)
def test_invocables_are_converted_in_both_directions(choice: str, native: dict[str, Any]) -> None:
    """With the choice among them."""
    tool = {"name": "f", "description": "d", "input_schema": CLOSED, "strict": True}
    translation = nativize_invocables([TOOL], choice)
    assert translation.value == {"tools": [tool], **native}
    assert normalize_invocables(translation.value).value == ((TOOL,), choice)


@pytest.mark.parametrize("choice", ["required", "f"])
@pytest.mark.parametrize(
    ("controls", "attributes"),
    [({"reasoning_budget_tokens": 1024}, KNOWN), ({"reasoning_effort": "low"}, ADAPTIVE)],
)
def test_a_thinking_model_is_not_required_to_call(
    choice: str, controls: dict[str, Any], attributes: ModelAttributes
) -> None:
    """The vendor rejects both together; the choice becomes ``auto``, with a loss."""
    request = Request(
        canisters=[UserCanister("?")],
        controls={"max_tokens": 4096, **controls},
        invocables=[TOOL],
        invocation_choice=choice,
    )
    translation = nativize_request(request, attributes, Quirks())

    assert translation.value["tool_choice"] == {"type": "auto"}
    assert ("coerced", "invocation_choice") in [
        (loss.kind, loss.path) for loss in translation.losses
    ]


@pytest.mark.parametrize(
    ("thinking", "attributes"),
    [({"reasoning_budget_tokens": 1024}, KNOWN), ({"reasoning_effort": "low"}, ADAPTIVE)],
)
@pytest.mark.parametrize(
    ("controls", "sent"),
    [
        ({"temperature": 0.5}, {}),
        ({"temperature": 1}, {"temperature": 1}),
        ({"top_p": 0.5}, {}),
        ({"top_p": 0.95}, {"top_p": 0.95}),
        ({"top_k": 3}, {}),
        ({"temperature": 0, "top_p": 0.9, "top_k": 3}, {}),
    ],
)
def test_a_thinking_model_gets_no_sampling_parameters(
    controls: dict[str, Any],
    sent: dict[str, Any],
    thinking: dict[str, Any],
    attributes: ModelAttributes,
) -> None:
    """The vendor rejects other values with thinking: they are left out, with a loss."""

    def write(**given: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        request = Request(canisters=[UserCanister("?")], controls={"max_tokens": 4096, **given})
        translation = nativize_request(request, attributes, Quirks())
        losses = [(str(loss.kind), loss.path) for loss in translation.losses]
        return {name: translation.value.get(name) for name in controls}, losses

    body, losses = write(**controls, **thinking)
    missing = [name for name in controls if name not in sent]

    assert {name: value for name, value in body.items() if value is not None} == sent
    assert losses == [("dropped", f"controls.{name}") for name in missing]
    assert write(**controls) == (controls, [])


@pytest.mark.parametrize("takes_both", [True, False, None])
def test_a_model_that_accepts_one_sampling_parameter_gets_the_temperature(
    takes_both: bool | None,
) -> None:
    """If the model's attributes forbid both together; each alone is sent to every model."""
    facts: JsonObject = {"controls": CONTROLS}
    if takes_both is not None:
        facts = {**facts, "supports_temperature_with_top_p": takes_both}
    attributes = ModelsIntegrator(provider="p").integrate("m", facts=facts)

    def write(controls: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        request = Request(canisters=[UserCanister("?")], controls=controls)
        translation = nativize_request(request, attributes, Quirks())
        sent = {name: translation.value[name] for name in controls if name in translation.value}
        losses = [(str(loss.kind), loss.path) for loss in translation.losses]
        return sent, [each for each in losses if "max_tokens" not in each[1]]

    both: dict[str, Any] = {"temperature": 0.5, "top_p": 0.9}
    one: dict[str, Any] = {"temperature": 0.5}

    assert write(both) == (
        (one, [("dropped", "controls.top_p")]) if takes_both is False else (both, [])
    )
    assert write(one) == (one, [])
    assert write({"top_p": 0.9}) == ({"top_p": 0.9}, [])


@pytest.mark.parametrize("limit", [1024, 2000])
def test_a_thinking_budget_without_room_for_the_answer_is_rejected(limit: int) -> None:
    """Before the vendor rejects it; with tools a model may think longer."""
    request = Request(
        canisters=[UserCanister("?")],
        controls={"max_tokens": limit, "reasoning_budget_tokens": 2000},
    )

    with pytest.raises(ControlError, match=f"less than max_tokens, {limit}, not 2000"):
        nativize_request(request, KNOWN, Quirks())

    body = nativize_request(attrs.evolve(request, invocables=[TOOL]), KNOWN, Quirks()).value
    assert (body["thinking"]["budget_tokens"], body["max_tokens"]) == (2000, limit)


def test_a_clients_own_thinking_parameters_are_kept() -> None:
    """In its own protocol nothing is changed."""
    native = {
        "max_tokens": 9,
        "temperature": 0.5,
        "thinking": {"type": "enabled", "budget_tokens": 2000},
    }
    own = Native(protocol="messages", data=json.dumps(native))
    request = Request(canisters=[UserCanister("?")], native=own)

    body = nativize_request(request, KNOWN, Quirks()).value

    assert {name: body[name] for name in native} == native


def test_parallel_calls_are_forbidden_in_the_choice() -> None:
    """If there are tools; otherwise the control is reported as lost."""
    request = Request(
        canisters=[UserCanister("?")],
        controls={"parallel_invocations": False, "max_tokens": 9},
        invocables=[TOOL],
        invocation_choice="required",
    )
    body = nativize_request(request, KNOWN, Quirks()).value
    assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    again = normalize_request(body, KNOWN).value
    assert (again.controls, again.invocation_choice) == (request.controls, "required")
    idle = Request(canisters=[UserCanister("?")], controls=dict(request.controls))
    translation = nativize_request(idle, KNOWN, Quirks())
    assert "tool_choice" not in translation.value
    assert [loss.path for loss in translation.losses] == ["controls.parallel_invocations"]


def test_unsupported_tools_are_withheld() -> None:
    """Tools of free text, other vendors' own tools, and other vendors' fields of a function."""
    own = Native(protocol="responses", data='{"type": "web_search"}')
    invocables = [
        InvocableDescription(name="free", description="d", schema=None),
        InvocableDescription(name="search", description="", schema=None, native=own),
        InvocableDescription(name="f", description="d", schema={}, native=own),
    ]
    translation = nativize_invocables(invocables, "search")
    assert [tool["name"] for tool in translation.value["tools"]] == ["f"]  # type: ignore[union-attr,index,call-overload]
    assert [loss.path for loss in translation.losses] == [
        "invocables[0]",
        "invocables[1]",
        "invocables[2].native",
        "invocation_choice",
    ]


def test_a_schema_is_converted_in_both_directions() -> None:
    """In both of its fields."""
    schema = {"type": "object", "properties": {"b": {}, "a": {}}}
    native = nativize_schema(schema)
    assert native == {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    assert normalize_schema(native).value == schema
    assert normalize_schema({}).value is None
    older = {"output_format": {"type": "json_schema", "schema": schema}}
    assert normalize_schema(older).value == schema
