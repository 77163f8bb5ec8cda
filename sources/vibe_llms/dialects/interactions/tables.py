"""Tables of this protocol's values, for calling and serving."""

from __future__ import annotations

from typing import Final

from vibe_llms.messages.canisters import StopReason

STOP_REASONS: Final = {
    "budget_exceeded": StopReason.LIMIT,
    "cancelled": StopReason.INTERRUPTED,
    "completed": StopReason.ANSWERED,
    "failed": StopReason.FAILED,
    "idle": StopReason.PAUSED,
    "in_progress": StopReason.INTERRUPTED,
    "incomplete": StopReason.LIMIT,
    "queued": StopReason.INTERRUPTED,
    "requires_action": StopReason.INVOCATION,
    "requires_continuation": StopReason.PAUSED,
}
"""Stop reasons by the status of an interaction; others are unknown, and kept as native data."""

RUNNING: Final = frozenset({"in_progress", "queued"})
"""Statuses of an interaction that has not ended."""

CONFIG: Final = "generation_config"
PLACES: Final = {
    "background": ("background",),
    "max_tokens": (CONFIG, "max_output_tokens"),
    "reasoning_effort": (CONFIG, "thinking_level"),
    "reasoning_summary": (CONFIG, "thinking_summaries"),
    "seed": (CONFIG, "seed"),
    "service_tier": ("service_tier",),
    "stop": (CONFIG, "stop_sequences"),
    "temperature": (CONFIG, "temperature"),
    "top_p": (CONFIG, "top_p"),
}
"""Path of each control in a request."""

WITHOUT_PLACE: Final = frozenset(
    {
        "frequency_penalty",
        "min_p",
        "parallel_invocations",
        "presence_penalty",
        "reasoning_budget_tokens",
        "repeat_penalty",
        "top_k",
        "verbosity",
    }
)
"""Controls of other protocols that this one does not have."""

LEVELS: Final = frozenset({"minimal", "low", "medium", "high", "xhigh"})
"""Levels of ``thinking_level``."""

JSON_TYPE: Final = "application/json"

MEDIA_KINDS: Final = {"image": "image", "audio": "audio", "video": "video", "document": "file"}
"""The kind of our content for each type of content with media."""

RESOLUTIONS: Final = {"low": "low", "high": "high", "ultra_high": "original"}
"""The detail of an image for each resolution; others are kept as native data."""

CHOICES: Final = {"none": "none", "required": "any"}
"""The tool choice of this protocol for each common one; ``auto`` is the default."""
