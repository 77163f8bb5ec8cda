"""Tables of this protocol's values, for calling and serving."""

from __future__ import annotations

from typing import Final

from vibe_llms.messages.canisters import StopReason

STOP_REASONS: Final = {
    "": StopReason.ANSWERED,
    "length": StopReason.LIMIT,
    "stop": StopReason.ANSWERED,
}
"""Stop reasons by ``done_reason``, which older servers omit; others are unknown."""

OPTIONS: Final = {
    "frequency_penalty": "frequency_penalty",
    "min_p": "min_p",
    "num_predict": "max_tokens",
    "presence_penalty": "presence_penalty",
    "repeat_penalty": "repeat_penalty",
    "seed": "seed",
    "stop": "stop",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
}
"""Controls by the name of the option, if the names differ."""

WITHOUT_PLACE: Final = frozenset(
    {
        "background",
        "parallel_invocations",
        "reasoning_budget_tokens",
        "reasoning_summary",
        "service_tier",
        "verbosity",
    }
)
"""Controls of other protocols that this one does not have."""

LEVELS: Final = ("low", "medium", "high", "max")
"""Levels of reasoning effort."""

DEFAULT_LEVEL: Final = "medium"
"""The level that stands for ``"think": true``: the server then uses the model's default."""

OPTIONS_BY_CONTROL: Final = {control: option for option, control in OPTIONS.items()}
"""Names of options by the name of their control."""
