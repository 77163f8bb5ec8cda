"""The vendor's account of tokens in buckets that do not overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vibe_llms.dialects.buckets import split_count
from vibe_llms.messages.canisters import Usage


def normalize_usage(native: Mapping[str, Any]) -> Usage:
    """Returns the usage. Input is counted apart from what caches hold; reasoning is not."""
    written, long = _split_written(native)
    thought = _count(_access(native, "output_tokens_details"), "thinking_tokens")
    output, within = split_count(_count(native, "output_tokens"), {"thought": thought})
    return Usage(
        input_tokens=_count(native, "input_tokens"),
        cache_read_tokens=_count(native, "cache_read_input_tokens"),
        cache_write_tokens=written,
        cache_write_long_tokens=long,
        output_tokens=output,
        reasoning_tokens=within["thought"],
        native=msgspec.json.encode(native).decode("utf-8"),
    )


def _split_written(native: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Returns what was written to the cache for five minutes, and for an hour.

    The total is cumulative and is told again at the end; its parts may not be.
    """
    total = _count(native, "cache_creation_input_tokens")
    created = _access(native, "cache_creation")
    short = _count(created, "ephemeral_5m_input_tokens")
    long = _count(created, "ephemeral_1h_input_tokens")
    if total is None:
        return short, long
    return max(short or 0, total - (long or 0)), long


def _access(native: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = native.get(name)
    return details if isinstance(details, Mapping) else {}


def _count(native: Mapping[str, Any], name: str) -> int | None:
    count = native.get(name)
    return count if isinstance(count, int) else None
