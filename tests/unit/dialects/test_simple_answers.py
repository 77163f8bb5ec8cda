"""The fast path for simple answers reads them as the general decoder does."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from support.vendors.both_ways import OTHERS, REQUEST, assemble, forget_chance
from support.vendors.hostility import produce_bodies, produce_decoder, replace_at, walk_paths
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.requests import Response
from vibe_llms.providers.simple_responses import SimpleResponseSource

FILES = {
    "anthropic_messages": "messages",
    "openai_chat": "chat_completions",
    "openai_responses": "responses",
    "perplexity": "chat_completions",
}
PROTOCOLS = ("chat_completions", "messages", "responses")
RECORDINGS = os.environ.get("VIBE_LLMS_RECORDINGS", "")

protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


def read_generally(protocol: str, body: bytes) -> Response:
    """Read an answer with the general decoder. Raises ConverseError."""
    return assemble(protocol, iter(produce_decoder(protocol).decode_response(body)))


def read_fast(protocol: str, body: bytes) -> SimpleResponseSource | None:
    simple = produce_decoder(protocol).read_simple_response(body)
    if simple is None:
        return None
    return SimpleResponseSource(simple, provider="p", protocol=protocol, request_id=None)


def check(protocol: str, body: bytes) -> bool:
    """Read an answer both ways; return whether the fast path accepts it."""
    answer = read_fast(protocol, body)
    if answer is None:
        return False
    expected = forget_chance(read_generally(protocol, body))
    response = answer.produce_response(REQUEST, (), 0.0)
    assert forget_chance(response) == expected
    assert forget_chance(assemble(protocol, iter(answer.list_events(response)))) == expected
    return True


@protocols
def test_a_valid_answer_is_read_the_same_both_ways(protocol: str) -> None:
    """Plain texts take the fast path."""
    assert [check(protocol, msgspec.json.encode(body)) for body in produce_bodies(protocol)]


def produce_plain(protocol: str) -> Any:
    """Return an answer that always takes the fast path."""
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    if protocol == "chat_completions":
        message = {"role": "assistant", "content": "Hi", "refusal": None, "annotations": []}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 7,
            "model": "m",
            "choices": [choice],
            "usage": {**usage, "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": 0}},
            "service_tier": "default",
        }
    if protocol == "messages":
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "Hi", "citations": None}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 9, "cache_read_input_tokens": 2, "output_tokens": 1},
        }
    part = {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}
    item = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": [{**item, "content": [part]}],
        "error": None,
        "incomplete_details": None,
        "temperature": 1.0,
        "usage": {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10},
    }


@pytest.mark.slow
@protocols
def test_a_replaced_value_is_read_the_same_or_takes_the_general_path(
    protocol: str,
) -> None:
    """Whatever the value and its position are."""
    plain = produce_plain(protocol)
    assert check(protocol, msgspec.json.encode(plain))
    taken = 0
    for path in walk_paths(plain):
        for other in OTHERS:
            taken += check(protocol, msgspec.json.encode(replace_at(plain, path, other)))
    assert taken > len(OTHERS)


@pytest.mark.slow
@protocols
@pytest.mark.parametrize("name", ["error", "citations", "search_results", "x_groq", "delta", "$x"])
@pytest.mark.parametrize("value", [None, 0, "", "x", [], ["https://a.example"], {}, {"usage": {}}])
def test_an_additional_field_is_kept_or_takes_the_general_path(
    protocol: str, name: str, value: Any
) -> None:
    """Vendors add fields at any place; the fast path loses none."""
    plain = produce_plain(protocol)
    for path in ((), *(path for path in walk_paths(plain))):
        place: Any = functools.reduce(lambda inner, key: inner[key], path, plain)
        if isinstance(place, dict) and name not in place:
            body = replace_at(plain, path, {**place, name: value})
            check_or_fail(protocol, msgspec.json.encode(body))


def check_or_fail(protocol: str, body: bytes) -> None:
    """Check an answer; if the general decoder rejects it, the fast path does not accept it."""
    if read_fast(protocol, body) is not None:
        check(protocol, body)


words = st.text(st.characters(codec="utf-8"), max_size=20)
counts = st.one_of(st.none(), st.integers(0, 50), st.integers(-1, 2**64), st.floats(0, 9))
totals = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "prompt_cache_hit_tokens",
    "reasoning_tokens",
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
parts = (
    "cached_tokens",
    "cache_write_tokens",
    "audio_tokens",
    "reasoning_tokens",
    "thinking_tokens",
    "ephemeral_5m_input_tokens",
    "ephemeral_1h_input_tokens",
)
places = (
    "prompt_tokens_details",
    "completion_tokens_details",
    "input_tokens_details",
    "output_tokens_details",
    "cache_creation",
)
details = st.dictionaries(st.sampled_from(parts), counts)
usages = st.builds(
    lambda flat, deep: {**flat, **deep},
    st.dictionaries(st.sampled_from(totals), counts, max_size=6),
    st.dictionaries(st.sampled_from(places), st.one_of(st.none(), details), max_size=3),
)
data = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**40), 2**40), words),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=5,
)


@protocols
@examples(60)
@given(words, usages, st.dictionaries(words, data, max_size=3), words, words)
def test_any_text_and_any_usage_are_read_the_same_both_ways(
    protocol: str, text: str, usage: Any, more: Any, name: str, model: str
) -> None:
    """The usage is read by the same function, and other fields are kept."""
    plain = produce_plain(protocol)
    path: dict[str, tuple[Any, ...]] = {
        "chat_completions": ("choices", 0, "message", "content"),
        "messages": ("content", 0, "text"),
        "responses": ("output", 0, "content", 0, "text"),
    }
    body = {**more, **replace_at(plain, path[protocol], text)}
    body |= {"usage": usage, "id": name, "model": model}
    is_taken = check(protocol, msgspec.json.encode(body))
    assert is_taken == bool(text and name and model and usage)


@protocols
@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"null", b"\xff", b'{"id":', b"[" * 100_000, b'{"id": "\\ud800"}']
)
def test_an_invalid_answer_takes_the_general_path(protocol: str, body: bytes) -> None:
    """Which reports the error."""
    assert read_fast(protocol, body) is None


@protocols
def test_a_lone_surrogate_takes_the_general_path(protocol: str) -> None:
    """Which repairs it, and reports the loss."""
    body = json.dumps(produce_plain(protocol)).replace("Hi", "Hi \\ud83d").encode()
    assert read_fast(protocol, body) is None
    assert read_generally(protocol, body).losses


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
        if exchange["status"] == 200 and not exchange["stream"]
    ]


@pytest.mark.slow
@pytest.mark.skipif(not RECORDINGS, reason="VIBE_LLMS_RECORDINGS names no folder")
def test_recorded_answers_are_read_the_same_both_ways() -> None:
    """At least a third of them takes the fast path, although they were chosen as unusual."""
    recorded = read_recorded()
    taken = 0
    for protocol, body in recorded:
        try:
            taken += check(protocol, body)
        except ConverseError:  # of the long way: then the short one must not have taken it
            raise AssertionError(body[:200]) from None
    assert taken > len(recorded) / 3
