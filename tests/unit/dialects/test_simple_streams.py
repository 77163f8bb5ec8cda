"""The fast path for short simple streams reads them as the general decoder does."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from support.vendors.both_ways import OTHERS, REQUEST, assemble, forget_chance
from support.vendors.hostility import produce_decoder, produce_streams, replace_at, walk_paths
from vibe_llms.events.stream import ContentDeltaEvent, StreamEvent, UsageEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.requests import Response
from vibe_llms.providers.simple_responses import SimpleResponseSource
from vibe_llms.wire.sse import SseFramer

FILES = {
    "anthropic_messages": "messages",
    "openai_chat": "chat_completions",
    "openai_responses": "responses",
}
RECORDINGS = os.environ.get("VIBE_LLMS_RECORDINGS", "")

protocols = pytest.mark.parametrize("protocol", ["chat_completions", "messages", "responses"])


def read_generally(protocol: str, body: bytes) -> tuple[Response, list[StreamEvent]]:
    """Read a stream with the general decoder, event by event. Raises ConverseError."""
    decoder = produce_decoder(protocol)
    events: list[StreamEvent] = []
    for frame in SseFramer(Limits()).feed(body):
        events += decoder.decode(frame.data, frame.event)
        if decoder.is_complete:
            break
    events += decoder.finish()
    return assemble(protocol, events), events


def read_fast(protocol: str, body: bytes) -> SimpleResponseSource | None:
    simple = produce_decoder(protocol).read_simple_stream(body)
    if simple is None:
        return None
    return SimpleResponseSource(simple, provider="p", protocol=protocol, request_id=None)


def list_pieces(events: Sequence[StreamEvent]) -> list[str]:
    deltas = [event.text for event in events if isinstance(event, ContentDeltaEvent)]
    return [text for text in deltas if text]


def check(protocol: str, body: bytes) -> bool:
    """Read a stream both ways; return whether the fast path accepts it."""
    answer = read_fast(protocol, body)
    if answer is None:
        return False
    long, expected = read_generally(protocol, body)
    response = answer.produce_response(REQUEST, (), 0.0)
    events = answer.list_events(response)
    assert forget_chance(response) == forget_chance(long)
    assert forget_chance(assemble(protocol, events)) == forget_chance(long)
    assert list_pieces(events) == list_pieces(expected)
    return True


def frame(events: Sequence[Any]) -> bytes:
    """Write a stream; bytes are written unchanged."""
    return b"".join(
        event
        if isinstance(event, bytes)
        else b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), msgspec.json.encode(event))
        if isinstance(event, dict) and "type" in event
        else b"data: " + msgspec.json.encode(event) + b"\n\n"
        for event in events
    )


def produce_plain(protocol: str, *pieces: str) -> list[Any]:
    """Return a stream that always takes the fast path."""
    pieces = pieces or ("Hi", " there")
    text = "".join(pieces)
    if protocol == "chat_completions":
        common = {"id": "c-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
        common |= {"service_tier": "default", "system_fingerprint": "fp"}

        def chunk(delta: Any, reason: str | None = None) -> Any:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
            return {**common, "choices": [choice], "usage": None, "obfuscation": "x"}

        usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
        return [
            chunk({"role": "assistant", "content": "", "refusal": None}),
            *[chunk({"content": piece}) for piece in pieces],
            chunk({}, "stop"),
            {**common, "choices": [], "usage": usage},
            b"data: [DONE]\n\n",
        ]
    if protocol == "messages":
        message = {"id": "m-1", "type": "message", "role": "assistant", "model": "m"}
        message |= {"content": [], "stop_reason": None, "stop_sequence": None}
        usage = {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 2}
        block = {"type": "text", "text": ""}
        delta = {"stop_reason": "end_turn", "stop_sequence": None}
        return [
            {"type": "message_start", "message": {**message, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "ping"},
            *[
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "text_delta", "text": piece},
                }
                for piece in pieces
            ],
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]
    place = {"item_id": "i-1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"id": "i-1", "type": "message", "role": "assistant"}
    done = {**item, "status": "completed", "content": [part]}
    response = {"id": "r-1", "object": "response", "created_at": 1, "model": "m", "error": None}
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    usage = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
    ended = {**response, "status": "completed", "output": [done], "usage": usage, "top_p": 1.0}
    started = {**item, "status": "in_progress", "content": []}
    events: list[Any] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": started},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *[
            {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
            for piece in pieces
        ],
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": ended},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def check_or_fail(protocol: str, body: bytes) -> bool:
    """Check a stream; if the general decoder rejects it, the fast path does not accept it."""
    return read_fast(protocol, body) is not None and check(protocol, body)


@protocols
def test_a_valid_stream_is_read_the_same_both_ways(protocol: str) -> None:
    """All streams that the fast path accepts."""
    for frames in produce_streams(protocol):
        lines = [(f"event: {name}\n".encode() if name else b"", data) for data, name in frames]
        check(protocol, b"".join(b"%bdata: %b\n\n" % line for line in lines))


@protocols
def test_a_plain_stream_takes_the_fast_path(protocol: str) -> None:
    """With its pieces unchanged."""
    body = frame(produce_plain(protocol, "a", "b", "c"))

    assert check(protocol, body)
    answer = read_fast(protocol, body)
    assert answer is not None
    assert list_pieces(answer.list_events()) == ["a", "b", "c"]


def test_a_stream_without_usage_takes_the_fast_path() -> None:
    """Many servers and proxies report none; its events have none either."""
    plain = produce_plain("chat_completions")
    silent = [*plain[:-2], plain[-1]]
    bare = [
        {name: value for name, value in event.items() if name != "usage"}
        if isinstance(event, dict)
        else event
        for event in silent
    ]
    for events in (silent, bare, silent[:-1]):
        assert check("chat_completions", frame(events))
    answer = read_fast("chat_completions", frame(bare))
    assert answer is not None
    assert not [each for each in answer.list_events() if isinstance(each, UsageEvent)]


def test_usage_before_the_last_chunk_takes_the_general_path() -> None:
    plain = produce_plain("chat_completions")
    early = [plain[-2], *plain[:-2], plain[-1]]
    assert read_fast("chat_completions", frame(early)) is None


@pytest.mark.slow
@protocols
def test_a_replaced_value_is_read_the_same_or_takes_the_general_path(protocol: str) -> None:
    """Whatever the value and its position are."""
    plain = produce_plain(protocol)
    taken = 0
    for number, event in enumerate(plain):
        if isinstance(event, bytes):
            continue
        for path in walk_paths(event):
            for other in OTHERS:
                changed = [*plain]
                changed[number] = replace_at(event, path, other)
                if isinstance(changed[number], dict):
                    taken += check_or_fail(protocol, frame(changed))
    assert taken > len(OTHERS)


@pytest.mark.slow
@protocols
@pytest.mark.parametrize(
    "name", ["error", "citations", "x_groq", "delta", "message", "$x", "usage"]
)
@pytest.mark.parametrize("value", [None, 0, "", "x", [], {}, {"usage": {}}])
def test_an_additional_field_is_kept_or_takes_the_general_path(
    protocol: str, name: str, value: Any
) -> None:
    """Vendors add fields at any place; the fast path loses none."""
    plain = produce_plain(protocol)
    for number, event in enumerate(plain):
        for path in () if isinstance(event, bytes) else ((), *walk_paths(event)):
            place: Any = functools.reduce(lambda inner, key: inner[key], path, event)
            if isinstance(place, dict) and name not in place:
                changed = [*plain]
                changed[number] = replace_at(event, path, {**place, name: value})
                check_or_fail(protocol, frame(changed))


@protocols
def test_missing_repeated_and_moved_events_are_read_the_same_both_ways(protocol: str) -> None:
    """So are comments, other names, other line endings, and streams that are cut anywhere."""
    plain = produce_plain(protocol)
    for one in range(len(plain)):
        check_or_fail(protocol, frame([*plain[:one], *plain[one + 1 :]]))
        for other in range(len(plain) + 1):
            check_or_fail(protocol, frame([*plain[:other], plain[one], *plain[other:]]))
        check_or_fail(protocol, frame([*plain[:one], b": here\n\n", *plain[one:]]))
        check_or_fail(protocol, frame([*plain[:one], b"data: [DONE]\n\n", *plain[one:]]))
    body = frame(plain)
    for end in range(len(body)):
        check_or_fail(protocol, body[:end])
    written = ((b"\n", b"\r\n"), (b"data: ", b"data:"), (b'":', b'":\r'), (b'":', b'":\n'))
    for changed in (body + body, *(body.replace(*each) for each in written)):
        check_or_fail(protocol, changed)


words = st.text(st.characters(codec="utf-8"), max_size=12)


@protocols
@examples(60)
@given(st.lists(words, max_size=4), words, words)
def test_any_text_is_read_the_same_both_ways(
    protocol: str, pieces: list[str], name: str, model: str
) -> None:
    """In any pieces, including empty ones."""
    raw = json.dumps(produce_plain(protocol, *pieces, "end"), default=bytes.decode)
    plain = json.loads(
        raw.replace('"c-1"', json.dumps(name)).replace('"m"', json.dumps(model)),
    )
    events = [each.encode() if isinstance(each, str) else each for each in plain]
    is_taken = check_or_fail(protocol, frame(events))
    assert is_taken == bool(model and (name or protocol != "chat_completions"))


def read_recorded() -> list[tuple[str, bytes]]:
    if not RECORDINGS:
        return []
    lines = [
        (protocol, json.loads(line))
        for name, protocol in FILES.items()
        for line in Path(RECORDINGS, f"{name}.jsonl").read_bytes().splitlines()
    ]
    return [
        (protocol, exchange["body"].encode())
        for protocol, exchange in lines
        if exchange["status"] == 200 and exchange["stream"]
    ]


@pytest.mark.skipif(not RECORDINGS, reason="VIBE_LLMS_RECORDINGS names no folder")
def test_recorded_streams_are_read_the_same_both_ways() -> None:
    """Some of the recordings take the fast path, although they were chosen as unusual."""
    recorded = read_recorded()
    taken = dict.fromkeys(FILES.values(), 0)
    for protocol, body in recorded:
        try:
            taken[protocol] += check(protocol, body.rstrip() + b"\n\n")
        except ConverseError:  # of the long way: then the short one must not have taken it
            raise AssertionError(body[:200]) from None
    assert all(taken.values()), taken
