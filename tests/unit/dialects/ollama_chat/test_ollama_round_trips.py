"""Requests and responses round-trip with the same meaning."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.meanings import distil
from strategies.ollama import (
    assemble,
    describe_model,
    native_requests,
    native_responses,
    read_whole,
)
from vibe_llms.dialects.ollama_chat import (
    Decoder,
    Quirks,
    nativize_request,
    nativize_response,
    normalize_request,
)
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.codec.envelopes import decode_request, encode_request
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.requests import Request

mean = functools.partial(distil, "ollama_chat")

RECORDINGS = os.environ.get("VIBE_LLMS_RECORDINGS", "")
REQUEST = Request(canisters=(UserCanister("hi"),))


def send_back(native: dict[str, Any], request: Request, provider: str = "") -> Any:
    """Return the body of a request, and its losses."""
    return nativize_request(
        request,
        describe_model(native["model"]),
        Quirks(),
        provider=provider,
        streaming=native.get("stream", True),
    )


@pytest.mark.slow
@given(native_requests())
def test_a_clients_request_round_trips(native: dict[str, Any]) -> None:
    """Nothing changes, and nothing is lost."""
    request = normalize_request(native)
    back = send_back(native, request.value)

    assert mean(back.value) == mean(native)
    assert {loss.kind for loss in request.losses} <= {LossKind.SYNTHESIZED}
    assert back.losses == ()


@given(native_requests())
def test_a_stored_request_round_trips(native: dict[str, Any]) -> None:
    """A request that was encoded and decoded is written the same."""
    request = normalize_request(native).value

    back = send_back(native, decode_request(encode_request(request)))

    assert mean(back.value) == mean(native)


@given(native_responses())
def test_a_response_round_trips(native: dict[str, Any]) -> None:
    """A complete response is written as the same object."""
    response = read_whole(native, REQUEST)

    back = nativize_response(response)

    assert mean(back.value) == mean(native)
    assert back.losses == ()


def split_response(body: dict[str, Any], sizes: list[int]) -> list[dict[str, Any]]:
    """Cut a complete response into lines, as a server streams it."""
    message = body["message"]
    head = {"model": body["model"], "created_at": body["created_at"]}
    lines = []
    for field in ("thinking", "content"):
        text = message.get(field, "")
        for size in [*sizes, len(text)]:
            piece, text = text[:size], text[size:]
            piece_fields = {"content": "", field: piece}
            lines.append({**head, "message": {"role": "assistant", **piece_fields}, "done": False})
    for call in message.get("tool_calls", ()):
        calls = {"role": "assistant", "content": "", "tool_calls": [call]}
        lines.append({**head, "message": calls, "done": False})
    rest = {k: v for k, v in message.items() if k not in ("content", "thinking", "tool_calls")}
    return [*lines, {**body, "message": {**rest, "content": ""}}]


def plain(response: Any) -> Any:
    """Return the meaning of a response, without our own ids and times."""
    return mean(nativize_response(response).value), [
        (canister.role, canister.content, getattr(canister, "arguments", None))
        for canister in response.canisters
    ]


@given(native_responses(), st.lists(st.integers(0, 4), max_size=3), st.booleans())
def test_a_stream_equals_the_complete_response(
    native: dict[str, Any], sizes: list[int], as_bytes: bool
) -> None:
    """However it is cut into lines, the canisters, usage and extras are the same."""
    decoder = Decoder(provider="ollama")
    events = []
    for line in split_response(native, sizes):
        events += decoder.decode(json.dumps(line).encode() if as_bytes else line)
    events += decoder.finish()

    assert plain(assemble(events, REQUEST)) == plain(read_whole(native, REQUEST))


def read_recordings() -> list[Any]:
    """Return the recorded exchanges by their names."""
    if not RECORDINGS:
        return []
    text = Path(RECORDINGS, "ollama_chat.jsonl").read_text(encoding="utf-8")
    exchanges = [json.loads(line) for line in text.splitlines()]
    return [pytest.param(exchange, id=exchange["id"]) for exchange in exchanges]


@pytest.mark.skipif(not RECORDINGS, reason="VIBE_LLMS_RECORDINGS names no folder of recordings")
@pytest.mark.parametrize("exchange", read_recordings())
def test_recorded_exchanges_round_trip(exchange: dict[str, Any]) -> None:
    """Requests are equal; streamed responses equal the complete one."""
    native = exchange["request"]
    request = normalize_request(native).value
    assert mean(send_back(native, request).value) == mean(native)

    if exchange["status"] != 200:
        return
    decoder = Decoder(provider="ollama")
    lines = exchange["body"].strip().split("\n")
    events = [event for line in lines for event in decoder.decode(line.encode())]
    response = assemble(events + decoder.finish(), request)
    last = json.loads(lines[-1])
    last["message"]["content"] = "".join(json.loads(line)["message"]["content"] for line in lines)
    assert mean(nativize_response(response).value) == mean(last)
    assert plain(read_whole(last, request)) == plain(response)
