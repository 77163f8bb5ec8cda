"""Tables of this protocol's values, for calling and serving."""

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
"""Stop reasons by the vendor's name; others are unknown, and kept as native data."""

SAMPLING_FIELDS: Final = ("temperature", "top_p", "top_k")
"""Parameters that newer models, and the newest version of the protocol, reject."""

SAME_NAMES: Final = (*SAMPLING_FIELDS, "max_tokens", "service_tier")
"""Controls whose parameter has the same name."""

OTHER_NAMES: Final = {"stop": "stop_sequences"}
"""Parameters of controls, if they have another name."""

SUMMARY_DISPLAYS: Final = {"auto": "summarized"}
"""Value of ``thinking.display`` for each value of the control for summaries of reasoning."""

CHOICE_WORDS: Final = {"auto": "auto", "none": "none", "required": "any"}
"""Type of ``tool_choice`` for each value of the control for the choice of tools."""

DECODED_FIELDS: Final = frozenset(
    {"content", "id", "model", "role", "stop_reason", "type", "usage"}
)
"""Fields of an answer that are decoded; all others are kept."""
