"""Translation of usage to disjoint buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.buckets import read_count, read_counts
from vibe_llms.dialects.extras import write_json
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.trusting import trusted

LONG: Final = "1h"
"""The longer of the two lifetimes in the cache."""

_make_usage: Final = trusted(Usage)


def normalize_usage(native: Mapping[str, Any]) -> Usage:
    """Return the usage. Cached input is counted separately; the output includes reasoning.

    Source: https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html (read
        2026-11-29).
    """
    received, produced, cached, written = read_counts(
        native, "inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"
    )
    long = _count_long(native.get("cacheDetails"))
    if written is not None and long is not None:
        written = max(0, written - long)
    return _make_usage(
        input_tokens=received,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        cache_write_long_tokens=long,
        output_tokens=produced,
        native=write_json(native),
    )


def _count_long(details: Any) -> int | None:
    """Return the tokens written to the cache for an hour; ``None`` if none are reported."""
    counts = [
        read_count(each, "inputTokens")
        for each in (details if isinstance(details, list) else ())
        if isinstance(each, Mapping) and each.get("ttl") == LONG
    ]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
