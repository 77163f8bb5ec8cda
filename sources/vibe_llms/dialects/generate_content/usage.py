"""The vendor's account of tokens in buckets that do not overlap, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vibe_llms.dialects.buckets import split_count
from vibe_llms.dialects.generate_content.fields import camelize, write_json
from vibe_llms.messages.canisters import Usage


def normalize_usage(native: Mapping[str, Any]) -> Usage:
    """Returns the usage.

    The prompt's count includes what was cached; what tools brought in and what was thought are
    counted apart; sound is within the totals.
    """
    fields = camelize(native)
    prompt, tools = _read(fields, "promptTokenCount"), _read(fields, "toolUsePromptTokenCount")
    cached = _read(fields, "cachedContentTokenCount")
    heard = _sum(
        _read_sound(fields, "promptTokensDetails"),
        _read_sound(fields, "toolUsePromptTokensDetails"),
    )
    if heard is not None:
        heard = _subtract(heard, _read_sound(fields, "cacheTokensDetails"))
    spoken = _read_sound(fields, "candidatesTokensDetails")
    rest, within = split_count(_sum(prompt, tools), {"cached": cached, "heard": heard})
    said, sound = split_count(_read(fields, "candidatesTokenCount"), {"spoken": spoken})
    return Usage(
        input_tokens=rest,
        cache_read_tokens=within["cached"],
        input_audio_tokens=within["heard"],
        output_tokens=said,
        reasoning_tokens=_read(fields, "thoughtsTokenCount"),
        output_audio_tokens=sound["spoken"],
        native=write_json(native),
    )


def nativize_usage(usage: Usage, *, is_ours: bool) -> dict[str, Any]:
    """Returns the account in the vendor's words; the vendor's own where it was ours.

    Args:
        is_ours: Whether the native account is of this protocol.
    """
    if is_ours and usage.native is not None:
        native: dict[str, Any] = msgspec.json.decode(usage.native)
        return native
    spoken = _sum(usage.output_tokens, usage.output_audio_tokens)
    heard, said = usage.input_audio_tokens, usage.output_audio_tokens
    fields = {
        "promptTokenCount": usage.total_input_tokens,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "candidatesTokenCount": spoken,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": _sum(usage.total_input_tokens, usage.total_output_tokens),
        "promptTokensDetails": _write_sound(heard),
        "candidatesTokensDetails": _write_sound(said),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _read(fields: Mapping[str, Any], name: str) -> int | None:
    count = fields.get(name)
    return count if isinstance(count, int) else None


def _read_sound(fields: Mapping[str, Any], name: str) -> int | None:
    """Returns how many tokens of a total were sound; ``None`` where that is not told."""
    details = [camelize(each) for each in fields.get(name) or ()]
    counts = [_read(each, "tokenCount") for each in details if each.get("modality") == "AUDIO"]
    return _sum(*counts)


def _write_sound(count: int | None) -> list[dict[str, Any]] | None:
    return None if count is None else [{"modality": "AUDIO", "tokenCount": count}]


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _subtract(total: int | None, *parts: int | None) -> int | None:
    if total is None:
        return None
    return max(0, total - sum(part for part in parts if part is not None))
