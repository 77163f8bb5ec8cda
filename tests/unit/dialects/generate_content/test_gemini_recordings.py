"""Recorded exchanges with the real vendor round-trip."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fidelity.meanings import distil
from support.vendors.gemini_answers import decode, decode_chunks, integrate
from vibe_llms.dialects.generate_content import (
    Quirks,
    nativize_request,
    nativize_response,
    normalize_request,
    produce_error,
)
from vibe_llms.exceptions import ProviderError, ProviderFault
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.wire.sse import SseFramer

mean = functools.partial(distil, "generate_content")

RECORDINGS = os.environ.get("VIBE_LLMS_RECORDINGS", "")
pytestmark = pytest.mark.skipif(
    not RECORDINGS, reason="VIBE_LLMS_RECORDINGS names no folder of recordings"
)
FREE = {"args", "response", "parameters", "parametersJsonSchema", "responseSchema",
        "responseJsonSchema", "partMetadata", "labels"}  # fmt: skip
"""Fields whose values are the user's own: their keys are no words of the protocol."""


@cache
def access_recordings() -> list[dict[str, Any]]:
    """Return all recorded exchanges."""
    lines = Path(RECORDINGS, "gemini.jsonl").read_bytes().splitlines()
    return [json.loads(line) for line in lines]


def list_exchanges(*, errors: bool = False, streams: bool | None = None) -> list[Any]:
    """Return those of a kind, with names for the report."""
    return [
        pytest.param(exchange, id=exchange["id"])
        for exchange in (access_recordings() if RECORDINGS else ())
        if (exchange["status"] >= 400) is errors and streams in (None, exchange["stream"])
    ]


def name_model(exchange: Mapping[str, Any]) -> str:
    """Return the name of the recorded model."""
    return str(exchange["path"].rpartition("/")[2].partition(":")[0])


def split_chunks(exchange: Mapping[str, Any]) -> list[bytes]:
    """Return the chunks of a recorded stream."""
    framer = SseFramer(Limits())
    frames = [*framer.feed(exchange["body"].encode()), *framer.finish()]
    return [frame.data for frame in frames]


def add_part(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    """Add a part as the vendor does in a complete response: plain texts are joined."""
    last = parts[-1] if parts else {}
    if last.keys() == part.keys() <= {"text", "thought"}:
        last["text"] += part["text"]
    else:
        parts.append(part)


def join_chunks(chunks: list[bytes]) -> dict[str, Any]:
    """Return the complete response for a stream."""
    whole: dict[str, Any] = {}
    for chunk in map(json.loads, chunks):
        for position, candidate in enumerate(chunk.pop("candidates", ())):
            candidates = whole.setdefault("candidates", [])
            if position == len(candidates):
                candidates.append({"content": {"parts": []}})
            content = candidate.pop("content", {})
            for part in content.pop("parts", []):
                add_part(candidates[position]["content"]["parts"], part)
            candidates[position]["content"] |= content
            candidates[position] |= candidate
        whole |= chunk
    return whole


@pytest.mark.slow
@pytest.mark.parametrize("exchange", list_exchanges())
@pytest.mark.parametrize("knows_controls", [True, False])
def test_a_request_round_trips(exchange: dict[str, Any], knows_controls: bool) -> None:
    """Whether its parameters became controls or not."""
    attributes = integrate(name_model(exchange), knows_controls=knows_controls)
    read = normalize_request(exchange["request"], attributes)
    assert read.losses == ()
    written = nativize_request(read.value, attributes, Quirks(), provider="google")
    assert mean(json.loads(json.dumps(written.value))) == mean(exchange["request"])
    assert written.losses == ()


@pytest.mark.parametrize("exchange", list_exchanges(streams=False))
def test_a_response_round_trips(exchange: dict[str, Any]) -> None:
    """A gateway can send the vendor's answer."""
    response = decode(exchange["body"].encode())
    written = nativize_response(response)
    body = json.loads(exchange["body"])
    assert mean(written.value) == mean(_with_ids(body, response.losses))
    assert written.losses == ()


@pytest.mark.parametrize("exchange", list_exchanges(streams=True))
def test_a_stream_equals_the_complete_response(exchange: dict[str, Any]) -> None:
    """And round-trips."""
    chunks = split_chunks(exchange)
    streamed, whole = decode_chunks(chunks), decode(join_chunks(chunks))
    assert streamed == whole
    written = nativize_response(streamed)
    assert mean(written.value) == mean(join_chunks(chunks))


@pytest.mark.slow
@pytest.mark.parametrize("exchange", list_exchanges(streams=True))
def test_a_stream_may_be_split_anywhere(exchange: dict[str, Any]) -> None:
    """Any split of the bytes gives the same chunks, and the same answer."""
    body = exchange["body"].encode()
    for size in (1, 2, 3, 7, 64, 1000):
        framer = SseFramer(Limits())
        frames = [
            frame
            for start in range(0, len(body), size)
            for frame in framer.feed(body[start : start + size])
        ]
        assert [frame.data for frame in (*frames, *framer.finish())] == split_chunks(exchange)


@pytest.mark.parametrize("exchange", list_exchanges(streams=True))
def test_a_stream_as_an_array_is_the_same(exchange: dict[str, Any]) -> None:
    """Without ``alt=sse`` the vendor sends one JSON array of the same chunks."""
    chunks = split_chunks(exchange)
    array = b"[" + b",\r\n".join(chunks) + b"]"
    assert decode(array) == decode_chunks(chunks)


@pytest.mark.parametrize("exchange", list_exchanges(errors=True))
def test_a_recorded_error_has_a_known_fault(exchange: dict[str, Any]) -> None:
    """No recorded error is unknown."""
    error = produce_error(
        json.loads(exchange["body"]), provider="google", status=exchange["status"]
    )
    assert isinstance(error, ProviderError)
    assert error.fault not in (ProviderFault.UNKNOWN,)
    if exchange["status"] == 429:
        assert (error.fault, error.retry_after_seconds) == (ProviderFault.RATE_LIMITED, 48)
    if "API_KEY_INVALID" in exchange["body"]:
        assert error.fault is ProviderFault.AUTHENTICATION


def _with_ids(body: dict[str, Any], losses: tuple[Loss, ...]) -> dict[str, Any]:
    """Return the body; each generated id was reported as a loss."""
    parts = [part for each in body["candidates"] for part in each["content"]["parts"]]
    missing = [p for p in parts if "functionCall" in p and "id" not in p["functionCall"]]
    assert [loss.kind for loss in losses] == [LossKind.SYNTHESIZED] * len(missing)
    return body
