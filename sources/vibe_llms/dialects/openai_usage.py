"""Usage in OpenAI's format; its two dialects differ only in names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.buckets import find_separate, read_counts, split_count
from vibe_llms.dialects.extras import write_json
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.trusting import trusted

_make_usage: Final = trusted(Usage)


def normalize_openai_usage(
    native: Mapping[str, Any], *, input_name: str, output_name: str
) -> Usage:
    """Return the usage. Most vendors include cached input, audio and reasoning in the totals.

    Exceptions: xAI and Perplexity's research count reasoning separately, Grok on Azure cached
    input, and Mistral audio. LiteLLM calls tokens written to the cache ``cache_creation_tokens``.

    Args:
        input_name, output_name: The names of the totals; their parts are in ``…_details``.
    """
    prompt, completion, total, hit, alone = read_counts(
        native,
        input_name,
        output_name,
        "total_tokens",
        "prompt_cache_hit_tokens",
        "reasoning_tokens",
    )
    read = written = heard = thought = spoken = None
    if details := native.get(f"{input_name}_details"):
        read, written, heard, created = read_counts(
            details, "cached_tokens", "cache_write_tokens", "audio_tokens", "cache_creation_tokens"
        )
        written = created if written is None else written
    if details := native.get(f"{output_name}_details"):
        thought, spoken = read_counts(details, "reasoning_tokens", "audio_tokens")
    read = hit if read is None else read
    if not (read or written or heard or thought or spoken):  # nothing to split
        return _make_usage(
            input_tokens=prompt,
            cache_read_tokens=read,
            cache_write_tokens=written,
            output_tokens=completion,
            reasoning_tokens=alone if thought is None else thought,
            native=write_json(native),
        )
    taken = {"read": read, "written": written, "heard": heard or None}
    given = {"thought": thought, "spoken": spoken or None}
    beside = find_separate(total, (prompt, completion), {**given, **taken})
    rest, taken = split_count(prompt, taken, beside)
    said, given = split_count(completion, given, beside)
    if thought is None:
        given["thought"] = alone
    return _make_usage(
        input_tokens=rest,
        cache_read_tokens=taken["read"],
        cache_write_tokens=taken["written"],
        input_audio_tokens=taken["heard"],
        output_tokens=said,
        reasoning_tokens=given["thought"],
        output_audio_tokens=given["spoken"],
        native=write_json(native),
    )
