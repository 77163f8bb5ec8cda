"""What the words of this protocol stand for: both halves go by these tables."""

from __future__ import annotations

from typing import Final

from vibe_llms.messages.canisters import StopReason

STOP_REASONS: Final = {
    "": StopReason.ANSWERED,
    "length": StopReason.LIMIT,
    "stop": StopReason.ANSWERED,
}
"""From the server's word, which older ones leave out; ``load`` and ``unload`` answer nothing."""

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
"""From the name of an option to that of its control; others go by their own names."""

WITHOUT_PLACE: Final = frozenset(
    {
        "parallel_invocations",
        "reasoning_budget_tokens",
        "reasoning_summary",
        "service_tier",
        "verbosity",
    }
)
"""Controls that other protocols have, and this one has not."""

LEVELS: Final = ("low", "medium", "high", "max")
"""How hard a model can be told to think."""

UNSAID_LEVEL: Final = "medium"
"""What ``"think": true`` stands for: the server takes the model's own measure."""

OPTIONS_BY_CONTROL: Final = {control: option for option, control in OPTIONS.items()}
