"""Usage in OpenAI's format. Its two dialects differ only in names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.buckets import find_separate, read_counts, split_count
from vibe_llms.dialects.extras import write_json
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.trusting import trusted

_make_usage: Final = trusted(Usage)

_SHORT_NAMES: Final = {
    f"{each}_tokens": f"{each}_token_details"
    for each in ("input", "output", "prompt", "completion")
}
"""Names of the parts of a total in transcriptions."""


def find_chunk_usage(chunk: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the usage in a chunk of a Chat Completions stream, if it reports any.

    Groq reports it in ``x_groq``, and Moonshot in a choice.
    """
    if usage := chunk.get("usage"):
        return usage if isinstance(usage, Mapping) else None
    choices = chunk.get("choices")
    owners = [chunk.get("x_groq"), *(choices if isinstance(choices, list) else ())]
    for owner in owners:
        if isinstance(owner, Mapping) and isinstance(usage := owner.get("usage"), Mapping):
            return usage or None
    return None


def normalize_openai_usage(
    native: Mapping[str, Any], *, input_name: str, output_name: str
) -> Usage:
    """Return the usage in disjoint buckets.

    Most vendors include cached input, audio and reasoning in the totals. But xAI and Perplexity's
    research models count reasoning separately, Grok on Azure cached input, and Mistral audio.
    LiteLLM calls tokens written to the cache ``cache_creation_tokens``.

    Args:
        input_name: The name of the total of the input; its parts are in ``…_details``.
        output_name: The name of the total of the output; its parts are in ``…_details``.
    """
    prompt, completion, total, cache_hits, separate_reasoning = read_counts(
        native,
        input_name,
        output_name,
        "total_tokens",
        "prompt_cache_hit_tokens",
        "reasoning_tokens",
    )
    cached = cache_writes = input_audio = reasoning = output_audio = None
    if details := native.get(f"{input_name}_details") or native.get(_SHORT_NAMES[input_name]):
        cached, cache_writes, input_audio, cache_creations = read_counts(
            details, "cached_tokens", "cache_write_tokens", "audio_tokens", "cache_creation_tokens"
        )
        cache_writes = cache_creations if cache_writes is None else cache_writes
    if details := native.get(f"{output_name}_details") or native.get(_SHORT_NAMES[output_name]):
        reasoning, output_audio = read_counts(details, "reasoning_tokens", "audio_tokens")
    cached = cache_hits if cached is None else cached
    if not (cached or cache_writes or input_audio or reasoning or output_audio):  # nothing to split
        return _make_usage(
            input_tokens=prompt,
            cache_read_tokens=cached,
            cache_write_tokens=cache_writes,
            output_tokens=completion,
            reasoning_tokens=separate_reasoning if reasoning is None else reasoning,
            native=write_json(native),
        )
    input_parts = {
        "cached": cached,
        "cache_writes": cache_writes,
        "input_audio": input_audio or None,
    }
    output_parts = {"reasoning": reasoning, "output_audio": output_audio or None}
    separate = find_separate(total, (prompt, completion), {**output_parts, **input_parts})
    rest_of_input, input_parts = split_count(prompt, input_parts, separate)
    rest_of_output, output_parts = split_count(completion, output_parts, separate)
    if reasoning is None:
        output_parts["reasoning"] = separate_reasoning
    return _make_usage(
        input_tokens=rest_of_input,
        cache_read_tokens=input_parts["cached"],
        cache_write_tokens=input_parts["cache_writes"],
        input_audio_tokens=input_parts["input_audio"],
        output_tokens=rest_of_output,
        reasoning_tokens=output_parts["reasoning"],
        output_audio_tokens=output_parts["output_audio"],
        native=write_json(native),
    )
