"""OpenAI's accounts of tokens, which its two dialects write alike but for the names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.buckets import find_beside, read_count, split_count
from vibe_llms.dialects.extras import write_json
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.trusting import trust


def normalize_openai_usage(native: Mapping[str, Any], *, asked: str, answered: str) -> Usage:
    """Returns the usage. Most vendors count cached input, sound and reasoning within the totals.

    Beside them reasoning is counted at xAI and in Perplexity's research, cached input by Grok on
    Azure, and sound by Mistral.

    Args:
        asked, answered: The names of the totals; what is within them stands in ``…_details``.
    """
    outer, inner = f"{asked}_details", f"{answered}_details"
    read = read_count(native, outer, "cached_tokens")
    if read is None:
        read = read_count(native, "prompt_cache_hit_tokens")
    thought = read_count(native, inner, "reasoning_tokens")
    taken = {
        "read": read,
        "written": read_count(native, outer, "cache_write_tokens"),
        "heard": read_count(native, outer, "audio_tokens") or None,
    }
    given = {"thought": thought, "spoken": read_count(native, inner, "audio_tokens") or None}
    totals = read_count(native, asked), read_count(native, answered)
    beside = find_beside(read_count(native, "total_tokens"), totals, {**given, **taken})
    rest, taken = split_count(totals[0], taken, beside)
    said, given = split_count(totals[1], given, beside)
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
        native=write_json(native),
    )
