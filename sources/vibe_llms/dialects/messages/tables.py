"""What the words of this protocol stand for: both halves go by these tables."""

from __future__ import annotations

from typing import Final

from vibe_llms.messages.canisters import StopReason

STOP_REASONS: Final = {
    "compaction": StopReason.PAUSED,
    "end_turn": StopReason.ANSWERED,
    "max_tokens": StopReason.LIMIT,
    "model_context_window_exceeded": StopReason.OVERFLOW,
    "pause_turn": StopReason.PAUSED,
    "refusal": StopReason.REFUSED,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_use": StopReason.INVOCATION,
}
"""From a vendor's word; any other is unknown, and is kept beside."""

SAMPLING_FIELDS: Final = ("temperature", "top_p", "top_k")
"""What newer models, and the newest version of the protocol, do not take any more."""

SAME_NAMES: Final = (*SAMPLING_FIELDS, "max_tokens", "service_tier")
"""The controls that are parameters by their own names."""

OTHER_NAMES: Final = {"stop": "stop_sequences"}
"""From a control to its parameter, where that is called otherwise."""

DISPLAYS: Final = {"auto": "summarized"}
"""From the summary of reasoning that is wanted to the vendor's word."""

CHOICE_WORDS: Final = {"auto": "auto", "none": "none", "required": "any"}
"""From a choice among invocables to the vendor's word."""

READ: Final = frozenset({"content", "id", "model", "role", "stop_reason", "type", "usage"})
"""What is read of an answer; any other field is kept."""

SHARED: Final = ("cache_control",)
"""What clients of Chat Completions say in this vendor's words, as OpenRouter and LiteLLM let them:
https://openrouter.ai/docs/features/prompt-caching (read 2026-11-26)."""
