"""Tables of this protocol's values, for calling and serving."""

from __future__ import annotations

from typing import Final

from vibe_llms.messages.canisters import StopReason

STOP_REASONS: Final = {
    "FINISH_REASON_UNSPECIFIED": StopReason.UNKNOWN,
    "STOP": StopReason.ANSWERED,
    "MAX_TOKENS": StopReason.LIMIT,
    "SAFETY": StopReason.FILTERED,
    "RECITATION": StopReason.FILTERED,
    "LANGUAGE": StopReason.FILTERED,
    "OTHER": StopReason.UNKNOWN,
    "BLOCKLIST": StopReason.FILTERED,
    "PROHIBITED_CONTENT": StopReason.FILTERED,
    "SPII": StopReason.FILTERED,
    "MALFORMED_FUNCTION_CALL": StopReason.FAILED,
    "IMAGE_SAFETY": StopReason.FILTERED,
    "IMAGE_PROHIBITED_CONTENT": StopReason.FILTERED,
    "IMAGE_OTHER": StopReason.FAILED,
    "NO_IMAGE": StopReason.FAILED,
    "IMAGE_RECITATION": StopReason.FILTERED,
    "UNEXPECTED_TOOL_CALL": StopReason.FAILED,
    "TOO_MANY_TOOL_CALLS": StopReason.FAILED,
    "MISSING_THOUGHT_SIGNATURE": StopReason.FAILED,
    "MALFORMED_RESPONSE": StopReason.FAILED,
    "ESCALATION": StopReason.FILTERED,
    "PUP_LIMITED_DISABLED": StopReason.FILTERED,
    "CONTINUATION": StopReason.PAUSED,
    "MODEL_ARMOR": StopReason.FILTERED,
}
"""Stop reasons by ``finishReason``; others are unknown, and kept as native data."""

CONFIG: Final = "generationConfig"
THINKING: Final = (CONFIG, "thinkingConfig")
PLACES: Final = {
    "temperature": (CONFIG, "temperature"),
    "top_p": (CONFIG, "topP"),
    "top_k": (CONFIG, "topK"),
    "max_tokens": (CONFIG, "maxOutputTokens"),
    "stop": (CONFIG, "stopSequences"),
    "seed": (CONFIG, "seed"),
    "presence_penalty": (CONFIG, "presencePenalty"),
    "frequency_penalty": (CONFIG, "frequencyPenalty"),
    "reasoning_budget_tokens": (*THINKING, "thinkingBudget"),
    "reasoning_effort": (*THINKING, "thinkingLevel"),
    "service_tier": ("serviceTier",),
}
"""Path of each control in a request."""

LEVELS: Final = frozenset({"minimal", "low", "medium", "high", "xhigh"})
"""Levels of ``thinkingLevel``."""

JSON_TYPE: Final = "application/json"


def normalize_stop(finish_reason: str, *, calls: bool) -> StopReason:
    """Return the stop reason; the vendor also sends ``STOP`` if it waits for results.

    Args:
        calls: Whether the answer has an invocation for us.
    """
    reason = STOP_REASONS.get(finish_reason, StopReason.UNKNOWN)
    return StopReason.INVOCATION if calls and reason is StopReason.ANSWERED else reason
