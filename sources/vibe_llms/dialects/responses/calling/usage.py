"""The vendors' accounts of tokens in buckets that do not overlap, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vibe_llms.dialects.buckets import find_beside, split_count
from vibe_llms.messages.canisters import Usage


def normalize_usage(native: Mapping[str, Any]) -> Usage:
    """Returns the usage. The vendor counts cached input and reasoning within the totals."""
    taken, given = (_access(native, f"{word}_tokens_details") for word in ("input", "output"))
    read, written = _count(taken, "cached_tokens"), _count(taken, "cache_write_tokens")
    heard, spoken = _count(taken, "audio_tokens"), _count(given, "audio_tokens")
    thought = _count(given, "reasoning_tokens")
    asked, answered = _count(native, "input_tokens"), _count(native, "output_tokens")
    inner = {"thought": thought, "spoken": spoken}
    outer = {"read": read, "written": written, "heard": heard}
    beside = find_beside(_count(native, "total_tokens"), (asked, answered), {**inner, **outer})
    rest, outer = split_count(asked, outer, beside)
    said, inner = split_count(answered, inner, beside)
    return Usage(
        input_tokens=rest,
        cache_read_tokens=outer["read"],
        cache_write_tokens=outer["written"],
        input_audio_tokens=outer["heard"],
        output_tokens=said,
        reasoning_tokens=inner["thought"],
        output_audio_tokens=inner["spoken"],
        native=msgspec.json.encode(native).decode("utf-8"),
    )


def _access(native: Mapping[str, Any], group: str) -> Mapping[str, Any]:
    details = native.get(group)
    return details if isinstance(details, Mapping) else {}


def _count(details: Mapping[str, Any], name: str) -> int | None:
    count = details.get(name)
    return count if isinstance(count, int) else None
