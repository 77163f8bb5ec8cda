"""The vendors' accounts of tokens in buckets that do not overlap, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vibe_llms.messages.canisters import Usage
from vibe_llms.plain import JsonObject


def normalize_usage(native: Mapping[str, Any]) -> Usage:
    """Returns the usage. Vendors count cached input and sound within the totals.

    Reasoning is within the output at most vendors; at xAI, and in Perplexity's research, it is
    counted beside, which the totals tell.
    """
    read = _access(native, "prompt_tokens_details", "cached_tokens")
    if read is None:
        read = _count(native.get("prompt_cache_hit_tokens"))
    written = _access(native, "prompt_tokens_details", "cache_write_tokens")
    heard = _access(native, "prompt_tokens_details", "audio_tokens") or None
    spoken = _access(native, "completion_tokens_details", "audio_tokens") or None
    thought = _access(native, "completion_tokens_details", "reasoning_tokens")
    within = thought
    if thought is None:
        thought = _count(native.get("reasoning_tokens"))
    elif _is_beside(native, thought):
        within = None
    return Usage(
        input_tokens=_subtract(native.get("prompt_tokens"), read, written, heard),
        cache_read_tokens=read,
        cache_write_tokens=written,
        input_audio_tokens=heard,
        output_tokens=_subtract(native.get("completion_tokens"), within, spoken),
        reasoning_tokens=thought,
        output_audio_tokens=spoken,
        native=msgspec.json.encode(native).decode("utf-8"),
    )


def nativize_usage(usage: Usage) -> JsonObject:
    """Returns an account of another protocol in this one's words."""
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    total_in, total_out = usage.total_input_tokens or 0, usage.total_output_tokens or 0
    if usage.cache_write_long_tokens is not None:
        written = (written or 0) + usage.cache_write_long_tokens
    return {
        "prompt_tokens": total_in,
        "completion_tokens": total_out,
        "total_tokens": total_in + total_out,
        "prompt_tokens_details": {
            "cached_tokens": read or 0,
            "cache_write_tokens": written or 0,
            "audio_tokens": usage.input_audio_tokens or 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens or 0,
            "audio_tokens": usage.output_audio_tokens or 0,
        },
    }


def _is_beside(native: Mapping[str, Any], thought: int) -> bool:
    counts = [_count(native.get(f"{word}_tokens")) for word in ("prompt", "completion", "total")]
    if thought == 0 or any(count is None for count in counts):
        return False
    prompt, completion, total = (count or 0 for count in counts)
    return thought > completion or total == prompt + completion + thought


def _access(native: Mapping[str, Any], group: str, name: str) -> int | None:
    details = native.get(group)
    if not details or not isinstance(details, Mapping):  # mostly it is not there
        return None
    return _count(details.get(name))


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return value if is_count else None  # type: ignore[return-value]  # just told


def _subtract(total: object, *parts: int | None) -> int | None:
    count = _count(total)
    if count is None:
        return None
    # Some vendors report more cached than read in all; nobody reads less than nothing.
    return max(0, count - sum(filter(None, parts)))
