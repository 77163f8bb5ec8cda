"""Tables of this protocol's values, for calling and serving."""

from __future__ import annotations

from typing import Final

from vibe_llms.messages.canisters import StopReason

INCOMPLETE_REASONS: Final = {
    "content_filter": StopReason.FILTERED,
    "length": StopReason.LIMIT,
    "max_messages": StopReason.PAUSED,
    "max_output_tokens": StopReason.LIMIT,
    "max_prompt_tokens": StopReason.OVERFLOW,
    "max_tokens": StopReason.LIMIT,
    "steered": StopReason.INTERRUPTED,
}
"""Stop reasons by the reason of an incomplete response; others are unknown, and kept."""

PLACES: Final = {
    "background": ("background",),
    "max_tokens": ("max_output_tokens",),
    "parallel_invocations": ("parallel_tool_calls",),
    "reasoning_effort": ("reasoning", "effort"),
    "reasoning_summary": ("reasoning", "summary"),
    "service_tier": ("service_tier",),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "verbosity": ("text", "verbosity"),
}
"""Path of each control in a request."""

WITHOUT_PLACE: Final = frozenset(
    {
        "frequency_penalty",
        "min_p",
        "presence_penalty",
        "reasoning_budget_tokens",
        "repeat_penalty",
        "seed",
        "stop",
        "top_k",
    }
)
"""Controls of other protocols that this one does not have."""
