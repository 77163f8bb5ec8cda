"""Usage of this protocol in disjoint buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.buckets import add_counts, read_count, split_count
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
    input_audio = add_counts(
        _read_audio_tokens(fields, "promptTokensDetails"),
        _read_audio_tokens(fields, "toolUsePromptTokensDetails"),
    )
    if input_audio is not None:
        # Audio from a cache is counted as cached.
        input_audio = _subtract(input_audio, _read_audio_tokens(fields, "cacheTokensDetails"))
    output_audio = _read_audio_tokens(fields, "candidatesTokensDetails")
    input_rest, input_parts = split_count(
        add_counts(prompt, tools), {"cached": cached, "audio": input_audio}
    )
    output_rest, output_parts = split_count(
        read_count(fields, "candidatesTokenCount"), {"audio": output_audio}
    )
    return Usage(
        input_tokens=input_rest,
        cache_read_tokens=input_parts["cached"],
        input_audio_tokens=input_parts["audio"],
        output_tokens=output_rest,
        reasoning_tokens=read_count(fields, "thoughtsTokenCount"),
        output_audio_tokens=output_parts["audio"],
        native=write_json(native),
    )


def _read_audio_tokens(fields: Mapping[str, Any], name: str) -> int | None:
    """Return the audio tokens of a total; ``None`` if unknown."""
    details = [camelize(each) for each in fields.get(name) or ()]
    counts = [read_count(each, "tokenCount") for each in details if each.get("modality") == "AUDIO"]
    return add_counts(*counts)


def _subtract(total: int | None, *parts: int | None) -> int | None:
    if total is None:
        return None
    return max(0, total - sum(part for part in parts if part is not None))
