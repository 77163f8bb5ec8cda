"""The vendor's account of tokens in buckets that do not overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.buckets import read_count, split_count
from vibe_llms.dialects.extras import write_json
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.trusting import trust


def normalize_usage(native: Mapping[str, Any]) -> Usage:
    """Returns the usage. Input is counted apart from what caches hold; reasoning is not."""
    written, long = _split_written(native)
    thought = read_count(native, "output_tokens_details", "thinking_tokens")
    output, within = split_count(read_count(native, "output_tokens"), {"thought": thought})
    return trust(
        Usage,
        input_tokens=read_count(native, "input_tokens"),
        cache_read_tokens=read_count(native, "cache_read_input_tokens"),
        cache_write_tokens=written,
        cache_write_long_tokens=long,
        output_tokens=output,
        reasoning_tokens=within["thought"],
        native=write_json(native),
    )


def _split_written(native: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Returns what was written to the cache for five minutes, and for an hour.

    The total is cumulative and is told again at the end; its parts may not be.
    """
    total = read_count(native, "cache_creation_input_tokens")
    short = read_count(native, "cache_creation", "ephemeral_5m_input_tokens")
    long = read_count(native, "cache_creation", "ephemeral_1h_input_tokens")
    if total is None:
        return short, long
    return max(short or 0, total - (long or 0)), long
