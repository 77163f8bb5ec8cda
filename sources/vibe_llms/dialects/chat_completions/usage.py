"""The vendors' accounts of tokens in buckets that do not overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vibe_llms.messages.canisters import Usage


def normalize_usage(native: Mapping[str, Any]) -> Usage:
    """Returns the usage. Vendors count cached input and reasoning within the totals."""
    read = _access(native, "prompt_tokens_details", "cached_tokens")
    written = _access(native, "prompt_tokens_details", "cache_write_tokens")
    thought = _access(native, "completion_tokens_details", "reasoning_tokens")
    return Usage(
        input_tokens=_subtract(native.get("prompt_tokens"), read, written),
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=_subtract(native.get("completion_tokens"), thought),
        reasoning_tokens=thought,
        native=msgspec.json.encode(native).decode("utf-8"),
    )


def _access(native: Mapping[str, Any], group: str, name: str) -> int | None:
    count = (native.get(group) or {}).get(name)
    return count if isinstance(count, int) else None


def _subtract(total: int | None, *parts: int | None) -> int | None:
    if total is None:
        return None
    # Some vendors report more cached than read in all; nobody reads less than nothing.
    return max(0, total - sum(part for part in parts if part is not None))
