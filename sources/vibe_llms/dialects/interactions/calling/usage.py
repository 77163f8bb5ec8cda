"""Usage of this protocol in disjoint buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.buckets import add_counts, read_count, split_count
from vibe_llms.dialects.extras import write_json
from vibe_llms.messages.canisters import Usage


def normalize_usage(native: Mapping[str, Any]) -> Usage:
    """Return the usage.

    The input includes cached tokens; those of tools and thoughts are counted separately; audio is
    included in the totals.
    """
    cached = read_count(native, "total_cached_tokens")
    input_audio = add_counts(
        _read_audio_tokens(native, "input_tokens_by_modality"),
        _read_audio_tokens(native, "tool_use_tokens_by_modality"),
    )
    cached_audio = _read_audio_tokens(native, "cached_tokens_by_modality")
    if input_audio is not None and cached_audio is not None:
        input_audio = max(0, input_audio - cached_audio)  # counted as cached
    received = add_counts(
        read_count(native, "total_input_tokens"), read_count(native, "total_tool_use_tokens")
    )
    input_rest, input_parts = split_count(received, {"cached": cached, "audio": input_audio})
    output_rest, output_parts = split_count(
        read_count(native, "total_output_tokens"),
        {"audio": _read_audio_tokens(native, "output_tokens_by_modality")},
    )
    return Usage(
        input_tokens=input_rest,
        cache_read_tokens=input_parts["cached"],
        input_audio_tokens=input_parts["audio"],
        output_tokens=output_rest,
        reasoning_tokens=read_count(native, "total_thought_tokens"),
        output_audio_tokens=output_parts["audio"],
        native=write_json(native),
    )


def _read_audio_tokens(native: Mapping[str, Any], name: str) -> int | None:
    """Return the audio tokens of a total; ``None`` if unknown."""
    details = native.get(name)
    entries = [each for each in details if isinstance(each, Mapping)] if details else []
    counts = [read_count(each, "tokens") for each in entries if each.get("modality") == "audio"]
    return add_counts(*counts)
