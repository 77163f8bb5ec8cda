"""Translation of usage to disjoint buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from vibe_llms.dialects.buckets import read_counts, split_count
from vibe_llms.dialects.extras import write_json
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.trusting import trusted

_make_usage: Final = trusted(Usage)

_SEPARATE_ITERATIONS: Final = frozenset({"advisor_message", "compaction"})
"""Iterations whose tokens are billed, and which the counts of the answer do not include."""


def normalize_usage(native: Mapping[str, Any]) -> Usage:
    """Return the usage. Cached input is counted separately; the output includes reasoning.

    A compaction of the conversation and the advice of another model are added.
    """
    usage = _normalize_counts(native)
    iterations = native.get("iterations")
    for each in iterations if isinstance(iterations, list) else ():
        if isinstance(each, Mapping) and each.get("type") in _SEPARATE_ITERATIONS:
            usage = attrs.evolve(usage + _normalize_counts(each), native=usage.native)
    return usage


def _normalize_counts(native: Mapping[str, Any]) -> Usage:
    input_count, output_count, cached, cache_writes = read_counts(
        native,
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    )
    short, long = read_counts(
        native.get("cache_creation"), "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"
    )
    (thinking,) = read_counts(native.get("output_tokens_details"), "thinking_tokens")
    output, parts = split_count(output_count, {"thought": thinking})
    return _make_usage(
        input_tokens=input_count,
        cache_read_tokens=cached,
        cache_write_tokens=_count_short(cache_writes, short, long),
        cache_write_long_tokens=long,
        output_tokens=output,
        reasoning_tokens=parts["thought"],
        native=write_json(native),
    )


def _count_short(total: int | None, short: int | None, long: int | None) -> int | None:
    """Return the tokens written to the cache for five minutes, without those for an hour.

    The total is cumulative and is sent again at the end of a stream; its parts may not be.
    """
    return short if total is None else max(short or 0, total - (long or 0))
