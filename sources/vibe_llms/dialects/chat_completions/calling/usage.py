"""The vendors' accounts of tokens in buckets that do not overlap, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vibe_llms.dialects.buckets import find_beside, split_count
from vibe_llms.messages.canisters import Usage


def normalize_usage(native: Mapping[str, Any]) -> Usage:
    """Returns the usage. Most vendors count cached input, sound and reasoning within the totals.

    Beside them reasoning is counted at xAI and in Perplexity's research, cached input by Grok on
    Azure, and sound by Mistral.
    """
    prompt, completion = (
        _count(native.get("prompt_tokens")),
        _count(native.get("completion_tokens")),
    )
    read = _access(native, "prompt_tokens_details", "cached_tokens")
    if read is None:
        read = _count(native.get("prompt_cache_hit_tokens"))
    written = _access(native, "prompt_tokens_details", "cache_write_tokens")
    heard = _access(native, "prompt_tokens_details", "audio_tokens") or None
    spoken = _access(native, "completion_tokens_details", "audio_tokens") or None
    thought = _access(native, "completion_tokens_details", "reasoning_tokens")
    taken = {"read": read, "written": written, "heard": heard}
    given = {"thought": thought, "spoken": spoken}
    beside = find_beside(
        _count(native.get("total_tokens")), (prompt, completion), {**given, **taken}
    )
    rest, taken = split_count(prompt, taken, beside)
    said, given = split_count(completion, given, beside)
    if thought is None:
        given["thought"] = _count(native.get("reasoning_tokens"))
    return Usage(
        input_tokens=rest,
        cache_read_tokens=taken["read"],
        cache_write_tokens=taken["written"],
        input_audio_tokens=taken["heard"],
        output_tokens=said,
        reasoning_tokens=given["thought"],
        output_audio_tokens=given["spoken"],
        native=msgspec.json.encode(native).decode("utf-8"),
    )


def _access(native: Mapping[str, Any], group: str, name: str) -> int | None:
    details = native.get(group)
    if not details or not isinstance(details, Mapping):  # mostly it is not there
        return None
    return _count(details.get(name))


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return value if is_count else None  # type: ignore[return-value]  # just told
