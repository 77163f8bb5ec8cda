"""Fields of clients that have the names of our own notes, and other unusual requests."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from fidelity.meanings import distil
from vibe_llms.dialects.chat_completions import Quirks, nativize_request, normalize_request
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister
from vibe_llms.messages.losses import LossKind
from vibe_llms.models.integrators import ModelsIntegrator

mean = functools.partial(distil, "chat_completions")

ATTRIBUTES = ModelsIntegrator(provider="vendor").integrate("m")
NAMES = ["spelt", "shape", "payload", "choice", "wanted", "calls", "message", "bare"]
NAMES += ["$", "$$", *(f"${name}" for name in NAMES)]
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def send_back(native: dict[str, Any]) -> Any:
    request = normalize_request(native).value
    return nativize_request(request, ATTRIBUTES, Quirks()).value


@pytest.mark.parametrize("value", ["text", {"absent": ["role", "content"]}, [1]])
@pytest.mark.parametrize("name", NAMES)
def test_a_clients_field_is_never_taken_for_our_note(name: str, value: Any) -> None:
    """At any place: beside messages, in them, in their parts and in calls."""
    own = {name: value}
    picture = {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}, **own}
    native = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be", **own},
            {"role": "user", "content": [{"type": "text", "text": "hi", **own}, picture], **own},
            {"role": "assistant", "content": "well", "tool_calls": [{**CALL, **own}], **own},
            {"role": "tool", "tool_call_id": "a", "content": "1", **own},
        ],
        **own,
    }

    assert mean(send_back(native)) == mean(native)


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
@pytest.mark.parametrize(
    "content",
    [["a"], ["a", {"type": "text", "text": "b"}, "c"], [{"type": "text", "text": "b"}, ""]],
)
def test_parts_that_are_plain_texts_round_trip(role: str, content: list[Any]) -> None:
    """Some clients send lists of texts."""
    native = {
        "model": "m",
        "messages": [{"role": role, "content": content}, {"role": "user", "content": "go"}],
    }

    assert mean(send_back(native)) == mean(native)


@pytest.mark.parametrize("call_id", [{}, {"id": None}, {"id": ""}])
def test_a_call_without_an_id_gets_one(call_id: dict[str, Any]) -> None:
    """The result without an id answers it."""
    call = {name: value for name, value in CALL.items() if name != "id"} | call_id
    result = {"role": "tool", "content": "1"}
    result |= {"tool_call_id": call_id["id"]} if call_id else {}
    native = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "tool_calls": [call, call]},
            result,
            result,
        ],
    }

    normalized = normalize_request(native)

    canisters = normalized.value.canisters
    calls = [c.invocation_id for c in canisters if isinstance(c, InvocationCanister)]
    results = [c.invocation_id for c in canisters if isinstance(c, ResultCanister)]
    assert calls == results
    assert len(set(calls)) == 2
    assert {loss.kind for loss in normalized.losses} == {LossKind.SYNTHESIZED}
    assert mean(send_back(native)) == mean(native)
