"""Control values as parameters of a request, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.controls import check_controls
from vibe_llms.plain import JsonObject, JsonValue

_SAME_NAME: Final = frozenset(
    {
        "frequency_penalty",
        "min_p",
        "presence_penalty",
        "reasoning_effort",
        "repeat_penalty",
        "seed",
        "stop",
        "temperature",
        "top_k",
        "top_p",
    }
)
_LIMIT_FIELDS: Final = ("max_completion_tokens", "max_tokens")
_OTHER_FIELDS: Final = frozenset(
    {
        "messages",
        "model",
        "parallel_tool_calls",
        "response_format",
        "stream",
        "stream_options",
        "tool_choice",
        "tools",
    }
)
"""The fields of a request which other processors read."""


def nativize_controls(
    controls: Mapping[str, JsonValue], attributes: ModelAttributes, quirks: Quirks
) -> Translation[JsonObject]:
    """Returns the parameters; a control that only a model's data know goes by its own name.

    Raises:
        ControlError: The model has no such control, or the value is outside its domain.
    """
    checked = check_controls(controls, attributes.controls)
    return Translation(
        {quirks.limit_field if k == "max_tokens" else k: value for k, value in checked.items()}
    )


def normalize_controls(
    parameters: JsonObject, attributes: ModelAttributes
) -> Translation[Mapping[str, JsonValue]]:
    """Returns the control values in a request; what is no control is reported as lost."""
    defined = {control.name for control in attributes.controls}
    controls: dict[str, JsonValue] = {}
    losses = []
    for name, value in parameters.items():
        if name in _OTHER_FIELDS or value is None:
            continue
        if name in _LIMIT_FIELDS:
            controls["max_tokens"] = value
        elif name == "stop":
            controls["stop"] = [value] if isinstance(value, str) else value
        elif name in _SAME_NAME or name in defined:
            controls[name] = value
        else:
            reason = "there is no control for this parameter"
            losses.append(Loss(kind=LossKind.DROPPED, path=name, reason=reason))
    return Translation(controls, losses)
