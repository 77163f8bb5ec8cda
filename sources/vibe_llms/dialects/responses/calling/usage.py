"""The vendors' accounts of tokens in buckets that do not overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vibe_llms.dialects.buckets import find_beside, read_count, split_count
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.trusting import trust


def normalize_usage(native: Mapping[str, Any]) -> Usage:
    """Returns the usage. The vendor counts cached input and reasoning within the totals."""
    read = read_count(native, "input_tokens_details", "cached_tokens")
    written = read_count(native, "input_tokens_details", "cache_write_tokens")
    heard = read_count(native, "input_tokens_details", "audio_tokens")
    spoken = read_count(native, "output_tokens_details", "audio_tokens")
    thought = read_count(native, "output_tokens_details", "reasoning_tokens")
    asked, answered = read_count(native, "input_tokens"), read_count(native, "output_tokens")
    inner = {"thought": thought, "spoken": spoken}
    outer = {"read": read, "written": written, "heard": heard}
    beside = find_beside(read_count(native, "total_tokens"), (asked, answered), {**inner, **outer})
    rest, outer = split_count(asked, outer, beside)
    said, inner = split_count(answered, inner, beside)
    return trust(
        Usage,
        input_tokens=rest,
        cache_read_tokens=outer["read"],
        cache_write_tokens=outer["written"],
        input_audio_tokens=outer["heard"],
        output_tokens=said,
        reasoning_tokens=inner["thought"],
        output_audio_tokens=inner["spoken"],
        native=msgspec.json.encode(native).decode("utf-8"),
    )
