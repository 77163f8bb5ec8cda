"""Bookkeeping fields of vendors, whose loss is routine.

They state when and where an answer was produced, how long that took, and the requested settings.
Every answer of the vendor has these fields, and clients of other protocols do not need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_IN_BOTH: Final = frozenset({"client_metadata", "include", "store", "stream_options"})
"""Request fields that do not change the answer, and that the answer repeats."""

_PRODUCTION_FIELDS: Final = frozenset(
    {
        *("billing", "completed_at", "createTime", "created", "created_at", "eval_duration"),
        *(
            "id",
            "index",
            "load_duration",
            "metrics",
            "model",
            "modelStatus",
            "native_finish_reason",
        ),
        *("object", "phase", "prompt_eval_duration", "provider", "responseId", "role"),
        *("safetyRatings", "service_tier", "status", "system_fingerprint", "time_info"),
        *("timings", "total_duration", "trafficType", "usage_breakdown", "x_groq"),
    }
)
"""Fields of an answer about its identity, time, place and speed."""

_REPEATED_FIELDS: Final = frozenset(
    {
        *("background", "conversation", "frequency_penalty", "max_output_tokens"),
        *("max_tool_calls", "metadata", "parallel_tool_calls", "presence_penalty"),
        *("previous_response_id", "prompt_cache_key", "prompt_cache_retention", "reasoning"),
        *("safety_identifier", "temperature", "text", "tool_choice", "tools", "top_logprobs"),
        *("top_p", "truncation", "user"),
    }
)
"""Request fields that the answer repeats."""

_ANSWER_FIELDS: Final = _IN_BOTH | _PRODUCTION_FIELDS | _REPEATED_FIELDS

_CANDIDATE_FIELDS: Final = frozenset({"avgLogprobs", "index", "safetyRatings", "tokenCount"})


CACHE_FIELDS: Final = frozenset(
    {
        *("cache_control", "prompt_cache_breakpoint", "prompt_cache_key"),
        *("prompt_cache_options", "prompt_cache_retention"),
    }
)
"""Fields for prompt caches. Unlike bookkeeping, users set them to save money."""


def is_bookkeeping(name: str, value: object, *, is_request: bool = False) -> bool:
    """Return whether a vendor's field is bookkeeping.

    Args:
        is_request: Whether it is a field of a request; few of these are bookkeeping.
    """
    if is_request:
        return name in _IN_BOTH
    if name == "candidates" and isinstance(value, list):
        return all(isinstance(each, Mapping) and each.keys() <= _CANDIDATE_FIELDS for each in value)
    if name == "function" and isinstance(value, Mapping):
        return value.keys() <= {"index"}
    return name in _ANSWER_FIELDS
