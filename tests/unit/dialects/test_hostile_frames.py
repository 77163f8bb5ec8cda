"""Any data of a vendor become an answer or one of our errors; no dialect raises another exception.

An accepted answer can be encoded and decoded.
"""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import sample
from support.vendors.hostility import (
    ABSENT,
    PROTOCOLS,
    Frame,
    produce_bodies,
    produce_decoder,
    produce_problems,
    produce_streams,
    read_body,
    read_stream,
    replace_at,
    walk_paths,
)
from vibe_llms.exceptions import (
    CodecError,
    ContextOverflowError,
    ConverseError,
    RequestError,
    StreamTruncatedError,
)

REPLACEMENTS = {
    "nothing": ABSENT,
    "null": None,
    "number": 7,
    "negative": -1,
    "fraction": 0.5,
    "huge": 10**25,
    "text": "x",
    "empty-text": "",
    "half-a-letter": "\ud800",
    "list": [],
    "full-list": ["x", 7, None, {}],
    "object": {},
    "full-object": {"type": "x", "id": 7, "text": ["x"]},
    "true": True,
}

GARBAGE = {
    "nothing": b"",
    "blank": b" ",
    "null": b"null",
    "number": b"7",
    "text": b'"x"',
    "list": b"[]",
    "nested-list": b"[[[7]]]",
    "object": b"{}",
    "cut": b'{"type": "te',
    "twice": b"{}{}",
    "html": b"<html>",
    "no-utf8": b'{"type": "\xff\xfe"}',
    "no-utf8-at-all": b"\xff\xfe\x00",
    "nan": b'{"type": NaN, "index": NaN}',
    "infinity": b'{"index": Infinity, "choices": [-Infinity]}',
    "out-of-range": b'{"index": 1e999, "usage": {"input_tokens": 1e999}}',
    "digits": b'{"index": ' + b"9" * 5_000 + b"}",
    "deep-list": b"[" * 100_000 + b"]" * 100_000,
    "deep-object": b'{"a":' * 100_000 + b"7" + b"}" * 100_000,
    "deep-error": b'{"error":' * 100_000 + b"7" + b"}" * 100_000,
    "same-key-twice": b'{"type": "x", "type": 7, "choices": 3, "choices": []}',
    "lone-surrogate": b'{"type": "\\ud800", "model": "\\udc00"}',
    "nul": b'{"type": "\\u0000"}',
    "error-number": b'{"error": 7}',
    "error-list": b'{"error": [[]]}',
    "error-true": b'{"error": true, "message": {}}',
    "typed-error": b'{"type": "error"}',
    "typed-error-in-words": b'{"type": "error", "error": "no"}',
}

TURNS = {name: turn for turn, name in enumerate(REPLACEMENTS)}
"""Which share of the places each replacement is tried at, where not at all of them."""

protocols = pytest.mark.parametrize("protocol", sorted(PROTOCOLS))


def expect_our_errors(read: Callable[[], object], place: str, broken: list[str]) -> None:
    """Record other exceptions, and our errors whose message has several lines."""
    try:
        read()
    except CodecError as error:
        broken.append(f"{place}: cannot be read again: {error}")
    except ContextOverflowError:
        pass
    except RequestError as error:
        broken.append(f"{place}: the user is blamed: {error}")
    except ConverseError as error:
        text = str(error)
        if "\n" in text or not text or len(text) > 5_000:
            broken.append(f"{place}: is told in {len(text)} characters: {text[:200]!r}")
    except Exception as error:
        broken.append(f"{place}: {type(error).__name__}: {str(error)[:150]}")


def encode(value: Any) -> bytes:
    """Write JSON, also with lone surrogates."""
    return json.dumps(value).encode()


def walk_frames(streams: list[list[Frame]]) -> Iterator[tuple[list[Frame], int, Any]]:
    """Yield each stream with the number of a frame, and that frame as data."""
    for frames in streams:
        for number, (data, _) in enumerate(frames):
            if data.startswith(b"{"):
                yield frames, number, msgspec.json.decode(data)


def describe(path: tuple[Any, ...]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)


@pytest.mark.slow
@pytest.mark.samples
@protocols
@pytest.mark.parametrize("name", REPLACEMENTS)
def test_any_value_of_a_stream_may_be_replaced(protocol: str, name: str) -> None:
    """At every key of every event, one at a time."""
    broken: list[str] = []
    places: dict[tuple[Any, ...], tuple[list[Frame], int, Any, tuple[Any, ...]]] = {}
    for frames, number, data in walk_frames(produce_streams(protocol)):
        for path in walk_paths(data):
            sign = (frames[number][1], data.get("type"), tuple(data), path, number == 0)
            places.setdefault(sign, (frames, number, data, path))
    for frames, number, data, path in sample(places.values(), TURNS[name]):
        event = frames[number][1]
        changed = encode(replace_at(data, path, REPLACEMENTS[name]))
        stream = [*frames[:number], (changed, event), *frames[number + 1 :]]
        place = f"{event or data.get('type')} {describe(path)}"
        expect_our_errors(partial(read_stream, protocol, stream), place, broken)

    assert len(places) > 20
    assert not broken, "\n".join(dict.fromkeys(broken))


@pytest.mark.slow
@pytest.mark.samples
@protocols
@pytest.mark.parametrize("name", REPLACEMENTS)
def test_any_value_of_a_complete_response_may_be_replaced(protocol: str, name: str) -> None:
    """At every key, one at a time."""
    broken: list[str] = []
    for body in produce_bodies(protocol):
        for path in sample(walk_paths(body), TURNS[name]):
            changed = encode(replace_at(body, path, REPLACEMENTS[name]))
            expect_our_errors(partial(read_body, protocol, changed), describe(path), broken)

    assert not broken, "\n".join(dict.fromkeys(broken))


@protocols
@pytest.mark.parametrize("name", REPLACEMENTS)
def test_any_value_of_an_error_may_be_replaced(protocol: str, name: str) -> None:
    """At every key, one at a time: it always becomes an error."""
    package = importlib.import_module(f"vibe_llms.dialects.{protocol}")
    broken: list[str] = []

    def make(problem: object) -> None:
        error = package.produce_error(problem, provider="parrot", model="m", status=429, headers={})
        assert isinstance(error, ConverseError)
        assert str(error)
        raise error

    for problem in produce_problems(protocol):
        for path in walk_paths(problem):
            changed = replace_at(problem, path, REPLACEMENTS[name])
            expect_our_errors(partial(make, changed), describe(path), broken)
    for value in REPLACEMENTS.values():
        expect_our_errors(partial(make, value), repr(value), broken)

    assert not broken, "\n".join(dict.fromkeys(broken))


@pytest.mark.slow
@protocols
@pytest.mark.parametrize("name", GARBAGE)
def test_invalid_frames_are_errors_or_ignored(protocol: str, name: str) -> None:
    """Before, within and after each stream, and as a complete body."""
    broken: list[str] = []
    for frames in produce_streams(protocol):
        for number in {0, 1, len(frames) // 2, len(frames) - 1, len(frames)}:
            for event in {"", frames[min(number, len(frames) - 1)][1]}:
                stream = [*frames[:number], (GARBAGE[name], event), *frames[number:]]
                expect_our_errors(partial(read_stream, protocol, stream), f"at {number}", broken)
    expect_our_errors(partial(read_body, protocol, GARBAGE[name]), "as a body", broken)

    assert not broken, "\n".join(dict.fromkeys(broken))


@pytest.mark.slow
@protocols
def test_events_may_be_lost_repeated_and_swapped(protocol: str) -> None:
    """A delta before its start, an end without a start, two ends, unknown indices."""
    broken: list[str] = []
    for frames in produce_streams(protocol):
        for number in range(len(frames)):
            lost = [*frames[:number], *frames[number + 1 :]]
            twice = [*frames[: number + 1], *frames[number:]]
            swapped = [*lost[: number + 1], frames[number], *lost[number + 1 :]]
            last = [*lost, frames[number]]
            first = [frames[number], *lost]
            for stream in (lost, twice, swapped, last, first, frames[number:], frames[:number]):
                expect_our_errors(partial(read_stream, protocol, stream), f"at {number}", broken)

    assert not broken, "\n".join(dict.fromkeys(broken))


@protocols
@given(seed=st.integers(0, 2**32))
def test_streams_may_be_shuffled_into_each_other(protocol: str, seed: int) -> None:
    """Any events in any order, some with a replaced value."""
    chance = random.Random(seed)
    frames = [frame for stream in produce_streams(protocol) for frame in stream]
    chosen = chance.choices(frames, k=chance.randrange(1, 30))
    for number, (data, event) in enumerate(chosen):
        if chance.random() < 0.2 and data.startswith(b"{"):
            fields = msgspec.json.decode(data)
            path = chance.choice(list(walk_paths(fields)))
            other = chance.choice(list(REPLACEMENTS.values()))
            chosen[number] = (encode(replace_at(fields, path, other)), event)
    broken: list[str] = []

    expect_our_errors(partial(read_stream, protocol, chosen), "shuffled", broken)

    assert not broken, broken


@protocols
def test_a_truncated_stream_is_not_complete(protocol: str) -> None:
    """Cut after any of its events but the last ones, and within any of them."""
    for frames in produce_streams(protocol):
        body = [frame for frame in frames if frame[0] != b"[DONE]"]
        decoder = produce_decoder(protocol)
        for data, event in body[: len(body) // 2]:
            decoder.decode(data, event)
        if len(body) > 2:
            with pytest.raises(StreamTruncatedError):
                decoder.finish()


@protocols
def test_the_last_event_completes_a_stream(protocol: str) -> None:
    """Only the last event of a valid stream; Gemini has no such event."""
    for frames in produce_streams(protocol):
        decoder = produce_decoder(protocol)
        completeness = []
        for data, event in frames:
            decoder.decode(data, event)
            completeness.append(bool(getattr(decoder, "is_complete", False)))
        assert not any(completeness[:-1])
        assert completeness[-1] is (protocol != "generate_content")
