"""Recorded exchanges with real vendors round-trip, and are read as the official SDK reads them."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai._models import construct_type
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk, CompletionCreateParams
from openai.types.chat.chat_completion_message_param import ChatCompletionMessageParam
from pydantic import TypeAdapter, ValidationError

from fidelity.meanings import distil
from support.quality.properties import examples
from vibe_llms.dialects.chat_completions import (
    PROTOCOL,
    Decoder,
    Quirks,
    nativize_request,
    nativize_response,
    normalize_request,
    produce_error,
)
from vibe_llms.dialects.chat_completions.tables import SPELLINGS
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.definitions import produce_control
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.models.keys import KEYS_BY_NAME
from vibe_llms.providers.assembly import Assembler
from vibe_llms.wire.sse import SseFramer

mean = functools.partial(distil, "chat_completions")

RECORDINGS = os.environ.get("VIBE_LLMS_RECORDINGS", "")
Exchange = dict[str, Any]


def read_exchanges() -> list[Exchange]:
    """Read the exchanges of this protocol; none without a folder of recordings."""
    if not RECORDINGS:
        return []
    return [
        json.loads(line)
        for name in ("openai_chat", "perplexity")
        for line in Path(RECORDINGS, f"{name}.jsonl").read_bytes().splitlines()
    ]


EXCHANGES = read_exchanges()
REASON = "VIBE_LLMS_RECORDINGS names no folder of recordings"
needs_recordings = pytest.mark.skipif(not EXCHANGES, reason=REASON)
SUCCESSES = [one for one in EXCHANGES if one["status"] < 400]
FAILURES = [one for one in EXCHANGES if one["status"] >= 400]


def is_streamed(exchange: Exchange) -> bool:
    """Return whether the answer was streamed, whatever was requested."""
    return re.match(r"\s*(data|event|:)", exchange["body"]) is not None


STREAMED = [one for one in SUCCESSES if is_streamed(one)]
WHOLE = [one for one in SUCCESSES if not is_streamed(one)]
KNOWN_TO_THE_SDK = [one for one in STREAMED if not re.search(r'"content":\s*\[', one["body"])]
"""Those with text alone: the SDK takes lists of parts, as Mistral sends them, for nothing."""


def describe(name: str) -> ModelAttributes:
    """Make the attributes of a model with all controls."""
    controls = [produce_control(n, KEYS_BY_NAME[n].definition) for n in SPELLINGS]
    attributes = ModelsIntegrator(provider="vendor").integrate(name)
    return attrs.evolve(attributes, controls=tuple(controls))


def frame(pieces: list[bytes]) -> Iterator[tuple[bytes, str]]:
    """Yield the data and the names of the events in a stream that arrives in pieces."""
    framer = SseFramer(Limits())
    for piece in pieces:
        for each in framer.feed(piece):
            yield bytes(each.data), each.event
    for each in framer.finish():
        yield bytes(each.data), each.event


def assemble(decoder: Decoder, pieces: list[bytes] | None, body: str) -> Response:
    """Read an answer, streamed in pieces or complete, to its end."""
    assembler = Assembler(provider="vendor", model="model", protocol=PROTOCOL)
    if pieces is None:
        events = decoder.decode_response(body.encode())
    else:
        framed = frame(pieces)
        events = [event for data, name in framed for event in decoder.decode(data, name)]
        events += decoder.finish()
    for event in events:
        assembler.feed(event)
    return Response(
        request=Request(canisters=[UserCanister("?")]),
        canisters=assembler.produce_canisters(),
        metadata=ResponseMetadata(origin=assembler.origin, native=assembler.native),
        losses=assembler.losses,
    )


def read(exchange: Exchange, pieces: list[bytes] | None = None) -> Response:
    """Read a recorded answer."""
    if is_streamed(exchange):
        pieces = pieces or [exchange["body"].encode()]
    return assemble(Decoder(provider="vendor"), pieces, exchange["body"])


def to_plain(value: Any) -> Any:
    """Return a value as JSON data."""
    return json.loads(json.dumps(value))


@pytest.mark.slow
@needs_recordings
@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda one: one["id"])
def test_a_recorded_request_round_trips(exchange: Exchange) -> None:
    """Field by field, and nothing is lost."""
    native = exchange["request"]
    if not native:
        pytest.skip("the recording has no request")
    streaming = bool(native.get("stream"))

    request = normalize_request(native)
    written = nativize_request(
        request.value, describe(native.get("model") or "m"), Quirks(), streaming=streaming
    )

    body = to_plain(written.value)
    if streaming and "stream_options" not in native:
        assert body.pop("stream_options") == {"include_usage": True}
    if "model" not in native:  # Azure names it in the path
        assert body.pop("model") == "m"
    assert mean(body) == mean(native)
    assert request.losses == written.losses == ()


@pytest.mark.slow
@needs_recordings
@pytest.mark.parametrize("exchange", WHOLE, ids=lambda one: one["id"])
def test_a_recorded_response_round_trips(exchange: Exchange) -> None:
    """Field by field."""
    response = read(exchange)
    written = nativize_response(response)

    assert mean(written.value) == mean(json.loads(exchange["body"]))
    assert written.losses == response.losses == ()


@pytest.mark.slow
@needs_recordings
@examples(40)  # of each of many
@given(data=st.data())
@pytest.mark.parametrize("exchange", STREAMED, ids=lambda one: one["id"])
def test_a_recorded_stream_may_be_cut_anywhere(exchange: Exchange, data: st.DataObject) -> None:
    """Inside a line, a character or an escape: the answer is the same."""
    body = exchange["body"].encode()
    places = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    pieces = [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]

    whole, cut = read(exchange), read(exchange, pieces)

    assert nativize_response(cut) == nativize_response(whole)


NOISE = frozenset({"obfuscation", "p"})


def prune(value: Any) -> Any:
    """Remove empty values, for which the SDK and we have other defaults, and random padding."""
    if isinstance(value, dict):
        return {
            name: prune(inner)
            for name, inner in value.items()
            if inner not in (None, "", [], {}) and name not in NOISE
        }
    return [prune(inner) for inner in value] if isinstance(value, list) else value


def accumulate(exchange: Exchange) -> Any:
    """Assemble a stream with the official SDK."""
    state: Any = ChatCompletionStreamState()
    for data, _ in frame([exchange["body"].encode()]):
        if data == b"[DONE]":
            continue
        chunk: Any = json.loads(data)
        for choice in chunk["choices"]:
            # It joins what some hosts repeat in each chunk as if it were text.
            for name in ("role", "native_finish_reason"):
                (choice.get("delta") or {}).pop(name, None)
                choice.pop(name, None)
            for detail in choice["delta"].get("reasoning_details") or ():
                for name in ("format", "type"):
                    detail.pop(name, None)
        state.handle_chunk(construct_type(value=chunk, type_=ChatCompletionChunk))
    return prune(json.loads(state.current_completion_snapshot.model_dump_json()))


@pytest.mark.slow
@needs_recordings
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("exchange", KNOWN_TO_THE_SDK, ids=lambda one: one["id"])
def test_a_recorded_stream_is_read_as_by_the_official_sdk(exchange: Exchange) -> None:
    """Its accumulator gives the same message, finish reason and usage."""
    theirs = accumulate(exchange)
    ours = prune(to_plain(nativize_response(read(exchange)).value))

    assert theirs.get("usage") == ours.get("usage")
    (their_choice,), (our_choice,) = theirs["choices"], ours["choices"]
    their_message, our_message = their_choice["message"], our_choice["message"]
    for call in their_message.get("tool_calls", ()):
        call.pop("index", None)
    for detail in our_message.get("reasoning_details", ()):
        detail.pop("format", None), detail.pop("type", None)
    our_message.pop("role")
    assert our_message == their_message
    assert our_choice["finish_reason"] == their_choice["finish_reason"]
    assert our_choice.get("logprobs") == their_choice.get("logprobs")


@pytest.mark.slow
@needs_recordings
@pytest.mark.parametrize(
    "exchange", [o for o in EXCHANGES if o["host"] == "api.openai.com"], ids=lambda one: one["id"]
)
def test_a_written_request_has_the_types_of_the_official_sdk(exchange: Exchange) -> None:
    """Each message is valid, and no parameter is unknown."""
    native = exchange["request"]
    written = to_plain(
        nativize_request(normalize_request(native).value, describe("m"), Quirks()).value
    )

    known = {n for union in get_args(CompletionCreateParams) for n in get_type_hints(union)}
    assert written.keys() <= known
    adapter: TypeAdapter[Any] = TypeAdapter(ChatCompletionMessageParam)
    for message in written["messages"]:
        try:
            adapter.validate_python(message)
        except ValidationError as error:
            pytest.fail(f"{message}: {error}")


@needs_recordings
@pytest.mark.parametrize("exchange", FAILURES, ids=lambda one: one["id"])
def test_a_recorded_error_has_a_known_fault(exchange: Exchange) -> None:
    """None of them is unknown."""
    try:
        body = json.loads(exchange["body"])
    except ValueError:
        body = exchange["body"]

    error = produce_error(body, provider="vendor", status=exchange["status"])

    assert isinstance(error, ConverseError)
    if isinstance(error, ProviderError):
        assert error.fault is not ProviderFault.UNKNOWN
