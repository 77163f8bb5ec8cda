"""The vendors' accounts of tokens in buckets that do not overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vibe_llms.dialects.buckets import find_beside, read_count, split_count
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.trusting import trust


def normalize_usage(native: Mapping[str, Any]) -> Usage:
    """Returns the usage. Most vendors count cached input, sound and reasoning within the totals.

    Beside them reasoning is counted at xAI and in Perplexity's research, cached input by Grok on
    Azure, and sound by Mistral.
    """
    prompt, completion = (
        read_count(native, "prompt_tokens"),
        read_count(native, "completion_tokens"),
    )
    read = read_count(native, "prompt_tokens_details", "cached_tokens")
    if read is None:
        read = read_count(native, "prompt_cache_hit_tokens")
    written = read_count(native, "prompt_tokens_details", "cache_write_tokens")
    heard = read_count(native, "prompt_tokens_details", "audio_tokens") or None
    spoken = read_count(native, "completion_tokens_details", "audio_tokens") or None
    thought = read_count(native, "completion_tokens_details", "reasoning_tokens")
    taken = {"read": read, "written": written, "heard": heard}
    given = {"thought": thought, "spoken": spoken}
    beside = find_beside(
        read_count(native, "total_tokens"), (prompt, completion), {**given, **taken}
    )
    rest, taken = split_count(prompt, taken, beside)
    said, given = split_count(completion, given, beside)
    if thought is None:
        given["thought"] = read_count(native, "reasoning_tokens")
    return trust(
        Usage,
        input_tokens=rest,
        cache_read_tokens=taken["read"],
        cache_write_tokens=taken["written"],
        input_audio_tokens=taken["heard"],
        output_tokens=said,
        reasoning_tokens=given["thought"],
        output_audio_tokens=given["spoken"],
        native=msgspec.json.encode(native).decode("utf-8"),
    )
