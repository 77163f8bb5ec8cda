"""Recorded exchanges with real vendors round-trip, however they are cut."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest

from fidelity.meanings import distil
from vibe_llms.dialects.responses import (
    PROTOCOL,
    Decoder,
    Quirks,
    nativize_request,
    nativize_response,
    normalize_request,
    produce_error,
)
from vibe_llms.events.stream import ContentDeltaEvent, LossEvent, StreamEvent
from vibe_llms.exceptions import ContextOverflowError, ConverseError, ProviderError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import ModelCanister, UserCanister
from vibe_llms.messages.contents import AnyContent, ReasoningContent
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.definitions import produce_control
from vibe_llms.models.genera import Genus
from vibe_llms.models.keys import KEYS, KeyRole
from vibe_llms.providers.assembly import Assembler
from vibe_llms.wire.sse import SseFramer

mean = functools.partial(distil, "responses")

RECORDINGS = os.environ.get("VIBE_LLMS_RECORDINGS", "")

pytestmark = pytest.mark.skipif(
    not RECORDINGS, reason="VIBE_LLMS_RECORDINGS names no folder of recordings"
)


def read_recordings() -> list[dict[str, Any]]:
    """Return the recorded exchanges of this protocol; none without a folder."""
    path = Path(RECORDINGS) / "openai_responses.jsonl"
    if not RECORDINGS or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


EXCHANGES = read_recordings()
ANSWERS = [each for each in EXCHANGES if each["status"] == 200]
STREAMS = [each for each in ANSWERS if each["stream"]]
"""The exchanges whose answer is streamed."""


def name(exchange: Mapping[str, Any]) -> str:
    """Name an exchange in the report."""
    return str(exchange["id"])


def produce_attributes(model: str) -> ModelAttributes:
    """Return the attributes of a model with any control."""
    controls = tuple(
        produce_control(key.name, key.definition) for key in KEYS if key.role is KeyRole.CONTROL
    )
    address = ModelAddress("openai_responses", model)
    return ModelAttributes(
        address=address, genus=Genus.CONVERSER, controls=controls, traced_values=()
    )


@pytest.mark.slow
@pytest.mark.parametrize("exchange", EXCHANGES, ids=name)
def test_a_recorded_request_round_trips(exchange: Mapping[str, Any]) -> None:
    """With the same meaning, and without a loss."""
    native = dict(exchange["request"])
    attributes = produce_attributes(native["model"])
    read = normalize_request(native)
    written = nativize_request(
        read.value, attributes, Quirks(), provider="openai_responses", streaming=exchange["stream"]
    )
    if not native.get("stream"):
        native.pop("stream", None)  # silence means the same
    assert mean(written.value) == mean(native)
    assert not written.losses


def frame(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the events of a stream with their names."""
    framer = SseFramer(Limits())
    for each in (*framer.feed(body), *framer.finish()):
        yield each.event, each.data


def decode_stream(body: bytes) -> list[StreamEvent]:
    """Return our events for a stream."""
    decoder = Decoder(provider="openai_responses")
    events = [event for word, data in frame(body) for event in decoder.decode(data, word)]
    return events + decoder.finish()


def find_final(body: bytes) -> dict[str, Any]:
    """Return the complete response at the end of a stream."""
    final: dict[str, Any] = {}
    for _, data in frame(body):
        if data != b"[DONE]":
            final = json.loads(data).get("response", final)
    return final


def assemble(events: list[StreamEvent]) -> Response:
    """Return the response for events."""
    assembler = Assembler(provider="openai_responses", model="asked", protocol=PROTOCOL)
    for event in events:
        assembler.feed(event)
    metadata = ResponseMetadata(origin=assembler.origin, native=assembler.native)
    return Response(
        request=Request(canisters=(UserCanister("?"),)),
        canisters=assembler.produce_canisters(),
        metadata=metadata,
        losses=assembler.losses,
    )


def outline(response: Response) -> list[Any]:
    """Return canisters without generated values that differ each time."""
    made_up: dict[str, Any] = {"id": "", "timestamp": datetime(2026, 1, 1, tzinfo=UTC)}
    return [
        attrs.evolve(
            each,
            content=[open_signature(content) for content in each.content],
            **made_up,
            **({"turn_id": ""} if isinstance(each, ModelCanister) else {}),
        )
        for each in response.canisters
    ]


def open_signature(content: AnyContent) -> AnyContent:
    """Return a content without its signature: some vendors sign each copy of reasoning anew."""
    signed = isinstance(content, ReasoningContent) and content.signature
    return attrs.evolve(content, signature="signed") if signed else content


def remove_signatures(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a response without its signatures: some vendors sign each copy anew."""
    output = [
        {**item, "encrypted_content": bool(item.get("encrypted_content"))}
        for item in body["output"]
    ]
    return {**body, "output": output}


@pytest.mark.slow
@pytest.mark.parametrize("exchange", ANSWERS, ids=name)
def test_a_recorded_response_round_trips(exchange: Mapping[str, Any]) -> None:
    """With the same meaning, and without a loss."""
    body = exchange["body"].encode()
    if exchange["stream"]:
        native, events = find_final(body), decode_stream(body)
    else:
        native = json.loads(body)
        events = Decoder(provider="openai_responses").decode_response(body)
    response = assemble(events)
    written = nativize_response(response)
    assert mean(remove_signatures(written.value)) == mean(remove_signatures(native))
    assert not written.losses
    assert not response.losses


@pytest.mark.parametrize("exchange", STREAMS, ids=name)
def test_a_stream_equals_the_response_at_its_end(exchange: Mapping[str, Any]) -> None:
    """The deltas agree with it, too."""
    body = exchange["body"].encode()
    streamed = decode_stream(body)
    whole = Decoder(provider="openai_responses").decode_response(find_final(body))
    assert outline(assemble(streamed)) == outline(assemble(whole))
    texts: list[str] = []
    for events in (streamed, whole):
        deltas = [e for e in events if isinstance(e, ContentDeltaEvent)]
        texts.append("".join(e.text for e in sorted(deltas, key=lambda e: e.index)))
    assert texts[0] == texts[1]
    assert not [event for event in streamed if isinstance(event, LossEvent)]


@pytest.mark.parametrize("exchange", [e for e in EXCHANGES if e["status"] != 200], ids=name)
def test_a_recorded_error_has_a_known_fault(exchange: Mapping[str, Any]) -> None:
    """With the vendor's fields and a readable message."""
    body = json.loads(exchange["body"])
    error: ConverseError = produce_error(
        body, provider="openai_responses", status=exchange["status"], headers={}
    )
    assert isinstance(error, ContextOverflowError | ProviderError)
    assert body["error"]["message"].rstrip(".") in str(error)
    if isinstance(error, ProviderError):
        assert error.fault != "unknown"
        assert not error.is_retryable
