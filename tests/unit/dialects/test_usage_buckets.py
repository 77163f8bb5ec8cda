"""The buckets of usage do not overlap, and no token is lost, whatever a vendor counts."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.dialects.buckets import find_separate, split_count
from vibe_llms.messages.canisters import (
    INPUT_BUCKETS,
    OUTPUT_BUCKETS,
    AssistantCanister,
    Origin,
    Usage,
    UserCanister,
)
from vibe_llms.messages.requests import Request, Response, ResponseMetadata

CHAT = "chat_completions"
counts = st.integers(0, 1_000)


def read(protocol: str, native: dict[str, Any]) -> Usage:
    """Return the usage."""
    usage = importlib.import_module(f"vibe_llms.dialects.{protocol}.calling.usage")
    normalized: Usage = usage.normalize_usage(native)
    return normalized


def list_buckets(usage: Usage) -> tuple[int | None, ...]:
    """Return the counts of all buckets."""
    return (
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.input_audio_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
    )


@pytest.mark.parametrize(
    ("protocol", "native", "buckets"),
    [
        (  # Grok on Azure: the cached ones are in no total
            CHAT,
            {"prompt_tokens": 24, "completion_tokens": 16, "total_tokens": 40,
             "prompt_tokens_details": {"cached_tokens": 161, "text_tokens": 24}},
            (24, 161, None, 16, None),
        ),
        (  # Mistral hears beside what it reads
            CHAT,
            {"prompt_tokens": 9, "completion_tokens": 201, "total_tokens": 585,
             "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 375}},
            (9, 0, 375, 201, None),
        ),
        (  # beside, though it would fit: the total says so
            CHAT,
            {"prompt_tokens": 500, "completion_tokens": 16, "total_tokens": 516 + 375,
             "prompt_tokens_details": {"audio_tokens": 375}},
            (500, None, 375, 16, None),
        ),
        (  # xAI reasons beside what it says
            CHAT,
            {"prompt_tokens": 199, "completion_tokens": 1, "total_tokens": 500,
             "prompt_tokens_details": {"cached_tokens": 163},
             "completion_tokens_details": {"reasoning_tokens": 300}},
            (36, 163, None, 1, 300),
        ),
        (  # sound that was cached is cached
            CHAT,
            {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105,
             "prompt_tokens_details": {"cached_tokens": 90, "audio_tokens": 50}},
            (0, 90, 10, 5, None),
        ),
        (
            "responses",
            {"input_tokens": 24, "output_tokens": 16, "total_tokens": 40,
             "input_tokens_details": {"cached_tokens": 161}},
            (24, 161, None, 16, None),
        ),
        (
            "responses",
            {"input_tokens": 24, "output_tokens": 16, "total_tokens": 140,
             "output_tokens_details": {"reasoning_tokens": 100}},
            (24, None, None, 16, 100),
        ),
        (
            "generate_content",
            {"promptTokenCount": 24, "cachedContentTokenCount": 161, "candidatesTokenCount": 16},
            (24, 161, None, 16, None),
        ),
        (
            "messages",
            {"input_tokens": 24, "output_tokens": 16,
             "output_tokens_details": {"thinking_tokens": 100}},
            (24, None, None, 16, 100),
        ),
    ],
)  # fmt: skip
def test_a_count_that_exceeds_its_total_is_separate(
    protocol: str, native: dict[str, Any], buckets: tuple[int | None, ...]
) -> None:
    """No count is negative: a part that is larger than the total was not included in it."""
    assert list_buckets(read(protocol, native)) == buckets


def test_cache_writes_are_at_least_the_sum_of_their_parts() -> None:
    """The total of cache writes may be older than its parts."""
    created = {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 60}
    usage = read("messages", {"cache_creation_input_tokens": 100, "cache_creation": created})

    assert (usage.cache_write_tokens, usage.cache_write_long_tokens) == (60, 60)


def test_a_compaction_and_an_adviser_are_counted() -> None:
    """Anthropic bills them, and reports them beside the answer's own tokens."""
    iterations = [
        {"type": "compaction", "input_tokens": 5_000, "output_tokens": 300},
        {"type": "message", "input_tokens": 20, "output_tokens": 8},
        {
            "type": "advisor_message",
            "model": "other",
            "input_tokens": 900,
            "cache_read_input_tokens": 70,
            "output_tokens": 40,
        },
        {"type": "message", "input_tokens": 4, "output_tokens": 2},
    ]
    native = {"input_tokens": 24, "output_tokens": 10, "iterations": iterations}
    usage = read("messages", native)

    assert usage.input_tokens == 24 + 5_000 + 900
    assert usage.cache_read_tokens == 70
    assert usage.output_tokens == 10 + 300 + 40
    assert usage.native is not None
    assert json.loads(usage.native) == native


@given(counts, counts, counts, counts, counts)
def test_parts_of_a_total_keep_their_counts(
    text: int, read_: int, input_audio: int, output: int, thought: int
) -> None:
    """The buckets add up to the vendor's total."""
    native = {
        "prompt_tokens": text + read_ + input_audio,
        "completion_tokens": output + thought,
        "total_tokens": text + read_ + input_audio + output + thought,
        "prompt_tokens_details": {"cached_tokens": read_, "audio_tokens": input_audio},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }

    assert list_buckets(read(CHAT, native)) == (text, read_, input_audio or None, output, thought)


@given(counts, counts, counts, st.sets(st.sampled_from(["read", "thought"])))
def test_parts_beside_a_total_keep_their_counts(
    prompt: int, read_: int, thought: int, beside: set[str]
) -> None:
    """If the vendor's sum shows that they are not included."""
    parts = {"thought": thought, "read": read_}
    total = prompt + 7 + sum(parts[name] for name in beside)

    found = find_separate(total, (prompt, 7), parts)

    assert sum(parts[name] for name in found) == sum(parts[name] for name in beside)


@given(counts, st.dictionaries(st.sampled_from("abc"), st.none() | counts))
def test_nothing_is_lost_and_nothing_is_counted_twice(
    whole: int, parts: dict[str, int | None]
) -> None:
    """The rest and the included parts add up to the total; a part that is too large keeps its
    count.
    """
    rest, split = split_count(whole, parts)

    within = [split[name] or 0 for name, count in parts.items() if (count or 0) <= whole]
    assert rest is not None
    assert rest + sum(within) == whole
    assert all(split[name] == count for name, count in parts.items() if (count or 0) > whole)
    assert split.keys() == parts.keys()


_SERVED = {
    "bedrock": "usage",
    CHAT: "usage",
    "generate_content": "usageMetadata",
    "messages": "usage",
    "ollama_chat": "",  # among the other fields
    "responses": "usage",
}
"""Where an answer has its account, by the protocols that we serve."""


@pytest.mark.parametrize("protocol", _SERVED)
@given(buckets=st.fixed_dictionaries(dict.fromkeys((*INPUT_BUCKETS, *OUTPUT_BUCKETS), counts)))
def test_merged_buckets_are_reported_to_clients(protocol: str, buckets: dict[str, int]) -> None:
    """Written and read again in any protocol, each count is the same, or in a loss."""
    usage = Usage(**buckets)
    origin = Origin(provider="parrot", model="m", protocol="words", response_id="r", usage=usage)
    response = Response(
        request=Request(canisters=[UserCanister("Well?")]),
        canisters=[AssistantCanister("Yes.", origin=origin)],
        metadata=ResponseMetadata(origin=origin, duration_seconds=0.0),
    )
    dialect = importlib.import_module(f"vibe_llms.dialects.{protocol}")
    written = dialect.nativize_response(response)
    place = _SERVED[protocol]
    again = read(protocol, written.value[place] if place else written.value)

    assert again.total_input_tokens == usage.total_input_tokens
    assert again.total_output_tokens == usage.total_output_tokens
    reported = {loss.path.removeprefix("usage.") for loss in written.losses}
    for name in (*INPUT_BUCKETS[1:], *OUTPUT_BUCKETS[1:]):
        is_kept = (getattr(again, name) or 0) == buckets[name]
        assert is_kept or name in reported or _is_merged_into(name, reported), name


def _is_merged_into(name: str, reported: set[str]) -> bool:
    """Return whether a bucket includes one that a loss names."""
    return name == "cache_write_tokens" and "cache_write_long_tokens" in reported


@pytest.mark.parametrize("protocol", [CHAT, "messages", "responses"])
def test_an_unknown_count_is_inserted_with_a_loss(protocol: str) -> None:
    """If the protocol requires a number."""
    origin = Origin(provider="parrot", model="m", protocol="words", usage=Usage(output_tokens=79))
    response = Response(
        request=Request(canisters=[UserCanister("Well?")]),
        canisters=[AssistantCanister("Yes.", origin=origin)],
        metadata=ResponseMetadata(origin=origin, duration_seconds=0.0),
    )
    written = importlib.import_module(f"vibe_llms.dialects.{protocol}").nativize_response(response)
    field = "prompt_tokens" if protocol == CHAT else "input_tokens"

    assert written.value["usage"][field] == 0
    assert [loss.path for loss in written.losses if "usage" in loss.path] == [f"usage.{field}"]
