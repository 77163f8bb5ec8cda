"""Valid answers of simulated vendors, and tools to make faulty ones from them."""

from __future__ import annotations

import copy
import functools
import importlib
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.dialects import converse
from vibe_llms.events.stream import ResponseFinishedEvent, StreamEvent
from vibe_llms.exceptions import ConverseError, RequestError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.codec.envelopes import decode_response, encode_response
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.providers.assembly import Assembler
from vibe_llms.testing.simulator.bedrock import BEDROCK
from vibe_llms.testing.simulator.chat_completions import CHAT
from vibe_llms.testing.simulator.delivery import encode_event
from vibe_llms.testing.simulator.faults import read_conditions
from vibe_llms.testing.simulator.generate_content import GEMINI
from vibe_llms.testing.simulator.messages import MESSAGES
from vibe_llms.testing.simulator.ollama import OLLAMA
from vibe_llms.testing.simulator.prompts import SimulatedPrompt
from vibe_llms.testing.simulator.protocols import SimulatedRequest, produce_minting
from vibe_llms.testing.simulator.refusals import SimulatedRefusal
from vibe_llms.testing.simulator.responses import RESPONSES
from vibe_llms.testing.simulator.scripts import (
    Cite,
    Draw,
    Invoke,
    Part,
    Refuse,
    Say,
    ScriptedAnswer,
    Search,
    Speak,
    Think,
)

Frame = tuple[bytes, str]
"""The bytes of an event, and its name."""

PROTOCOLS: Final = {
    "bedrock": BEDROCK,
    "chat_completions": CHAT,
    "generate_content": GEMINI,
    "messages": MESSAGES,
    "ollama_chat": OLLAMA,
    "responses": RESPONSES,
}
"""Simulated protocols by dialect."""

_SOURCE: Final = Cite(url="https://example.com/one")
_WORDS: Final = (Think("I think."), Say("Two words.", (_SOURCE,)))
_CALLS: Final = (Invoke("look", {"at": 1}, id="call_1"), Invoke("listen", {}, id="call_2"))
_TURNS: Final[dict[str, tuple[Part, ...]]] = {
    "words": _WORDS,
    "calls": (Think("I think."), *_CALLS),
    "search": (Search("what", (_SOURCE,)), *_WORDS),
    "refusal": (Refuse("I will not."),),
    "picture": (Draw(b"\x89PNG\r\n\x1a\n"),),
    "sound": (Speak(b"RIFF0000WAVEfmt ", "hello"),),
}
_QUIRKS: Final = {"chat_completions": ("", "mistral", "openrouter", "perplexity", "xai")}
_LACKING: Final = {
    "bedrock": {"sound"},
    "chat_completions": {"search", "picture"},
    "generate_content": {"sound"},
    "messages": {"picture", "sound"},
    "ollama_chat": {"search", "picture", "sound"},
    "responses": {"sound"},
}
"""Turns that the vendors of a dialect do not support."""


def _produce_request(quirk: str) -> SimulatedRequest:
    return SimulatedRequest(
        path="/",
        query={},
        headers={},
        body={"model": "m", "stream_options": {"include_usage": True}},
        conditions=read_conditions(quirk),
        mint=produce_minting(),
        now=1_700_000_000,
        names={"model": "m"},
        identity="r-1",
    )


def _produce_turns(protocol: str) -> Iterator[tuple[ScriptedAnswer, str]]:
    for name, parts in _TURNS.items():
        if name not in _LACKING[protocol]:
            for quirk in _QUIRKS.get(protocol, ("",)):
                yield ScriptedAnswer(parts=parts), quirk


def produce_streams(protocol: str) -> list[list[Frame]]:
    """Return valid streams of a vendor, which together have all features of its simulator."""
    simulated = PROTOCOLS[protocol]
    streams = []
    for turn, quirk in _produce_turns(protocol):
        frames = simulated.stream(
            turn, SimulatedPrompt(model="m", wants_stream=True), _produce_request(quirk)
        )
        streams.append([(_encode(frame.data), frame.event) for frame in frames])
    return streams


def produce_stream(protocol: str, *parts: Part) -> bytes:
    """Return the bytes of a stream, framed as the vendor does."""
    if protocol == converse.PROTOCOL:
        writer = converse.StreamWriter({})
        return b"".join(map(writer.write, _relay(*parts)))
    simulated_request = _produce_request("")
    frames = PROTOCOLS[protocol].stream(
        ScriptedAnswer(parts=parts),
        SimulatedPrompt(model="m", wants_stream=True),
        simulated_request,
    )
    return b"".join(frame_event(protocol, _encode(each.data), each.event) for each in frames)


def _relay(*parts: Part) -> Iterator[StreamEvent]:
    """Yield the events of an answer that a gateway received in another protocol."""
    simulated_request, decoder = _produce_request(""), produce_decoder("messages")
    assembler = Assembler(provider="parrot", model="m", protocol="messages", limits=Limits())
    frames = MESSAGES.stream(
        ScriptedAnswer(parts=parts),
        SimulatedPrompt(model="m", wants_stream=True),
        simulated_request,
    )
    events = [event for frame in frames for event in decoder.decode(_encode(frame.data))]
    for each in (*events, *decoder.finish()):
        event = assembler.feed(each)
        if isinstance(event, ResponseFinishedEvent):
            request = Request(canisters=[UserCanister("hello")])
            response = assembler.produce_response(request, duration_seconds=0, first_seconds=None)
            event = attrs.evolve(event, response=response)
        yield event


def frame_event(protocol: str, data: bytes, event: str = "") -> bytes:
    """Return one event of a stream as its vendor writes it."""
    if protocol == "bedrock":
        return encode_event(data, event)
    if protocol == "ollama_chat":
        return data + b"\n"
    return (f"event: {event}\n".encode() if event else b"") + b"data: " + data + b"\n\n"


def begin_event(protocol: str) -> bytes:
    """Return the beginning of an event that is longer than any limit."""
    if protocol != "bedrock":
        return b'data: {"x": "'
    lengths = struct.pack(">II", 2**31, 0)
    return lengths + struct.pack(">I", zlib.crc32(lengths))


def produce_body(protocol: str, *parts: Part) -> bytes:
    """Return a whole response of a vendor."""
    if protocol == converse.PROTOCOL:
        *_, last = _relay(*parts)
        assert isinstance(last, ResponseFinishedEvent)
        assert last.response is not None
        return msgspec.json.encode(converse.nativize_response(last.response).value)
    rendered = PROTOCOLS[protocol].render(
        ScriptedAnswer(parts=parts), SimulatedPrompt(model="m"), _produce_request("")
    )
    return msgspec.json.encode(rendered)


def produce_bodies(protocol: str) -> list[Any]:
    """Return valid complete responses of a vendor, as plain data."""
    simulated = PROTOCOLS[protocol]
    return [
        copy.deepcopy(simulated.render(turn, SimulatedPrompt(model="m"), _produce_request(quirk)))
        for turn, quirk in _produce_turns(protocol)
    ]


def produce_problems(protocol: str) -> list[Any]:
    """Return valid errors of a vendor, as plain data."""
    refusals = (
        SimulatedRefusal(400, "invalid", "No.", code="bad"),
        SimulatedRefusal(401, "authentication", "Who are you?"),
        SimulatedRefusal(429, "rate", "Later.", retry_after=1),
        SimulatedRefusal(529, "overloaded", "Overloaded"),
        PROTOCOLS[protocol].overflow(SimulatedPrompt(model="m", tokens=9), 5),
    )
    simulated_request = _produce_request("")
    return [
        dict(PROTOCOLS[protocol].write_error(refusal, simulated_request)) for refusal in refusals
    ]


def _encode(data: Any) -> bytes:
    return data.encode() if isinstance(data, str) else msgspec.json.encode(data)


def walk_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value within plain data."""
    if path:
        yield path
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield from walk_paths(inner, (*path, key))


ABSENT: Final = object()
"""Marker for :func:`replace_at`: remove the value."""


def replace_at(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """Return a copy of plain data with another value at a path."""
    if not path:
        return other
    copied = value.copy()
    if other is ABSENT and len(path) == 1:
        del copied[path[0]]
    else:
        copied[path[0]] = replace_at(value[path[0]], path[1:], other)
    return copied


def produce_decoder(protocol: str) -> Any:
    """Create the decoder of a dialect."""
    package = importlib.import_module(f"vibe_llms.dialects.{protocol}")
    return package.Decoder(provider="parrot", model="m")


def _assemble(protocol: str, events: Iterator[StreamEvent]) -> Response:
    assembler = Assembler(provider="parrot", model="m", protocol=protocol, limits=Limits())
    for event in events:
        assembler.feed(event)
    request = Request(canisters=[UserCanister("hello")])
    response = Response(
        request=request,
        canisters=assembler.produce_canisters(),
        metadata=ResponseMetadata(
            origin=assembler.origin, duration_seconds=0.0, native=assembler.native
        ),
        losses=tuple(assembler.losses),
    )
    # Answers are stored, so they must be readable again.
    return decode_response(encode_response(response))


def read_stream(protocol: str, frames: list[Frame]) -> Response:
    """Read a stream as a provider does; encode the response. May raise ConverseError."""
    decoder = produce_decoder(protocol)

    def read() -> Iterator[StreamEvent]:
        for data, event in frames:
            yield from _convert_errors(functools.partial(decoder.decode, data, event))
        yield from _convert_errors(decoder.finish)

    return _assemble(protocol, read())


def read_body(protocol: str, body: bytes) -> Response:
    """Read a complete response as a provider does. May raise ConverseError."""
    decoder = produce_decoder(protocol)
    return _assemble(protocol, iter(_convert_errors(lambda: decoder.decode_response(body))))


def _convert_errors(decode: Callable[[], list[StreamEvent]]) -> list[StreamEvent]:
    """Decode; convert validation errors as ``WireSource`` does."""
    try:
        return decode()
    except RequestError as error:
        if type(error) is not RequestError:
            raise
        raise ConverseError(detail=error.detail) from error
