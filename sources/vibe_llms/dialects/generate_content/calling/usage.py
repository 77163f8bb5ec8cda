"""Usage of this protocol in disjoint buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.buckets import read_count, split_count
from vibe_llms.dialects.extras import write_json
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.messages.canisters import Usage


def normalize_usage(native: Mapping[str, Any]) -> Usage:
    """Return the usage.

    The prompt's count includes cached tokens; tool and thought tokens are counted separately; audio
    is included in the totals.
    """
    fields = camelize(native)
    prompt, tools = (
        read_count(fields, "promptTokenCount"),
        read_count(fields, "toolUsePromptTokenCount"),
    )
    cached = read_count(fields, "cachedContentTokenCount")
    heard = add_counts(
        _read_sound(fields, "promptTokensDetails"),
        _read_sound(fields, "toolUsePromptTokensDetails"),
    )
    if heard is not None:
        # Audio from a cache is counted as cached.
        heard = _subtract(heard, _read_sound(fields, "cacheTokensDetails"))
    spoken = _read_sound(fields, "candidatesTokensDetails")
    rest, within = split_count(add_counts(prompt, tools), {"cached": cached, "heard": heard})
    said, sound = split_count(read_count(fields, "candidatesTokenCount"), {"spoken": spoken})
    return Usage(
        input_tokens=rest,
        cache_read_tokens=within["cached"],
        input_audio_tokens=within["heard"],
        output_tokens=said,
        reasoning_tokens=read_count(fields, "thoughtsTokenCount"),
        output_audio_tokens=sound["spoken"],
        native=write_json(native),
    )


def _read_sound(fields: Mapping[str, Any], name: str) -> int | None:
    """Return the audio tokens of a total; ``None`` if unknown."""
    details = [camelize(each) for each in fields.get(name) or ()]
    counts = [read_count(each, "tokenCount") for each in details if each.get("modality") == "AUDIO"]
    return add_counts(*counts)


def add_counts(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _subtract(total: int | None, *parts: int | None) -> int | None:
    if total is None:
        return None
    return max(0, total - sum(part for part in parts if part is not None))
