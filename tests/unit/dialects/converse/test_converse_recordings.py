"""Recorded requests, answers and errors of real vendors pass through ``converse`` unchanged."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

from strategies.answers import strip_identity
from vibe_llms.dialects import converse
from vibe_llms.events.stream import LossEvent, ResponseFinishedEvent, StreamEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.error_facts import access_facts
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request, Response
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.genera import Genus
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.gateway.relaying import RelayedAssembler
from vibe_llms.wire.ndjson import NdjsonFramer
from vibe_llms.wire.sse import SseFramer

RECORDINGS = os.environ.get("VIBE_LLMS_RECORDINGS", "")
PROTOCOLS = {
    "anthropic_messages": "messages",
    "gemini": "generate_content",
    "ollama_chat": "ollama_chat",
    "openai_chat": "chat_completions",
    "openai_responses": "responses",
    "perplexity": "chat_completions",
}
REQUEST = Request(canisters=[UserCanister("?")])
REMOTE_MODEL = ModelAttributes(
    address=ModelAddress("remote", "far:model"),
    genus=Genus.CONVERSER,
    controls=(),
    traced_values=(),
)

pytestmark = pytest.mark.skipif(
    not RECORDINGS, reason="VIBE_LLMS_RECORDINGS names no folder of recordings"
)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROTOCOLS)
def test_recorded_requests_arrive_unchanged(name: str) -> None:
    """With all common and native fields."""
    dialect = importlib.import_module(f"vibe_llms.dialects.{PROTOCOLS[name]}")
    count = 0
    for exchange in survey(name):
        try:
            request: Request = dialect.normalize_request(exchange["request"]).value
        except ConverseError:
            continue  # a request that its own vendor refused, too
        body = converse.nativize_request(request, REMOTE_MODEL).value
        arrived = converse.normalize_request(json.loads(msgspec.json.encode(body))).value
        assert arrived == attrs.evolve(request, model="far:model"), exchange["id"]
        count += 1
    assert count


@pytest.mark.slow
@pytest.mark.parametrize("name", PROTOCOLS)
def test_recorded_answers_arrive_unchanged(name: str) -> None:
    """Streamed and complete, with origin, usage, losses and native data."""
    protocol = PROTOCOLS[name]
    count = 0
    for exchange in survey(name):
        try:
            events, response = read(exchange, protocol)
        except ConverseError:
            continue
        whole = msgspec.json.encode(converse.nativize_response(response).value)
        writer = converse.StreamWriter({})
        frames = SseFramer(Limits()).feed(b"".join(map(writer.write, events)))
        decoder = produce_decoder()
        streamed = [each for frame in frames for each in decoder.decode(frame.data, frame.event)]
        streamed += decoder.finish()
        for events_read in (streamed, produce_decoder().decode_response(whole)):
            again = relay(events_read)
            assert strip_identity(again.canisters) == strip_identity(response.canisters)
            assert again.metadata == response.metadata, exchange["id"]
            assert sorted(map(str, again.losses)) == sorted(map(str, response.losses))
        kinds = [each.type for each in streamed if not isinstance(each, LossEvent)]
        assert kinds == [each.type for each in events if not isinstance(each, LossEvent)]
        count += 1
    assert count


@pytest.mark.parametrize("name", PROTOCOLS)
def test_recorded_errors_arrive_unchanged(name: str) -> None:
    """With their class, their facts, and whether to retry."""
    dialect = importlib.import_module(f"vibe_llms.dialects.{PROTOCOLS[name]}")
    for exchange in survey(name):
        if exchange["status"] < 400:
            continue
        error = dialect.produce_error(
            _decode(exchange["body"]), provider="vendor", model="model", status=exchange["status"]
        )
        answer = converse.nativize_error(error)
        body = json.loads(msgspec.json.encode(answer.body))
        again = converse.produce_error(body, provider="remote", status=answer.status)
        assert type(again) is type(error), exchange["id"]
        assert access_facts(again) == access_facts(error), exchange["id"]
        assert again.is_retryable == error.is_retryable


def survey(name: str) -> Iterator[dict[str, Any]]:
    """Yield the exchanges of a file."""
    for line in Path(RECORDINGS, f"{name}.jsonl").read_bytes().splitlines():
        yield json.loads(line)


def read(exchange: dict[str, Any], protocol: str) -> tuple[list[StreamEvent], Response]:
    """Return the events of an answer as the assembler passes them on, and the answer."""
    dialect = importlib.import_module(f"vibe_llms.dialects.{protocol}")
    decoder = dialect.Decoder(provider="vendor", model="model")
    body = exchange["body"].encode()
    if exchange["status"] >= 400:
        raise ConverseError
    if not exchange["stream"]:
        decoded = decoder.decode_response(body)
    else:
        is_lines = protocol == "ollama_chat"
        framer = NdjsonFramer(Limits()) if is_lines else SseFramer(Limits())
        frames = [*framer.feed(body), *framer.finish()]
        decoded = [each for frame in frames for each in decoder.decode(frame.data, frame.event)]
        decoded += decoder.finish()
    assembler = Assembler(provider="vendor", model="model", protocol=protocol)
    events = [assembler.feed(event) for event in decoded]
    response = assembler.produce_response(REQUEST, duration_seconds=0.0, first_seconds=None)
    last = events[-1]
    assert isinstance(last, ResponseFinishedEvent)
    return [*events[:-1], attrs.evolve(last, response=response)], response


def relay(events: list[StreamEvent]) -> Response:
    """Assemble an answer as the provider does."""
    assembler = RelayedAssembler("far:model", "remote")
    for event in events:
        assembler.feed(event)
    return assembler.produce_response(REQUEST, duration_seconds=0.0, first_seconds=None)


def produce_decoder() -> converse.Decoder:
    """Make a decoder of an answer."""
    return converse.Decoder(provider="remote", model="far:model", request=REQUEST)


def _decode(body: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body
