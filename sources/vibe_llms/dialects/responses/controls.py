"""Control values as parameters of a request, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.responses.quirks import Quirks
from vibe_llms.exceptions import ControlError
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.controls import Control, check_control, check_controls
from vibe_llms.plain import JsonObject, JsonValue

PLACES: Final = {
    "max_tokens": ("max_output_tokens",),
    "parallel_invocations": ("parallel_tool_calls",),
    "reasoning_effort": ("reasoning", "effort"),
    "reasoning_summary": ("reasoning", "summary"),
    "service_tier": ("service_tier",),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "verbosity": ("text", "verbosity"),
}
"""From a control to its place in a request."""

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
"""Controls that other protocols have, and this one has not."""


def nativize_controls(
    controls: Mapping[str, JsonValue], attributes: ModelAttributes, quirks: Quirks
) -> Translation[JsonObject]:
    """Returns the parameters; a control that only a model's data know goes by its own name.

    Raises:
        ControlError: The model has no such control, or the value is outside its domain.
    """
    native: dict[str, Any] = {}
    losses = []
    for name, value in check_controls(controls, attributes.controls).items():
        if name in WITHOUT_PLACE and name not in quirks.extra_controls:
            reason = "this protocol has no such parameter"
            losses.append(Loss(kind=LossKind.DROPPED, path=f"controls.{name}", reason=reason))
            continue
        *groups, field = PLACES.get(name, (name,))
        holder = native
        for group in groups:
            holder = holder.setdefault(group, {})
        holder[field] = value
    return Translation(native, losses)


def normalize_controls(
    parameters: JsonObject, attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Returns the control values in a request; what is no control is left to the request."""
    return Translation(split_controls(parameters, attributes)[0])


def split_controls(
    parameters: JsonObject, attributes: ModelAttributes | None
) -> tuple[dict[str, JsonValue], dict[str, Any]]:
    """Returns the control values, and the parameters without them.

    Args:
        attributes: Of the model: only its controls count, and only values that they take.
            ``None`` takes all for controls that can be.
    """
    defined = None if attributes is None else {each.name: each for each in attributes.controls}
    controls: dict[str, JsonValue] = {}
    rest: dict[str, Any] = {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in parameters.items()
    }
    for name, (*groups, field) in PLACES.items():
        holder: Any = rest
        for group in groups:
            holder = holder.get(group)
        if not isinstance(holder, dict) or holder.get(field) is None:
            continue
        if defined is None or (name in defined and _takes(defined[name], holder[field])):
            controls[name] = holder.pop(field)
    for name in (defined or {}).keys() - PLACES.keys() - WITHOUT_PLACE:  # those stay as they are
        if rest.get(name) is not None and name in parameters:
            controls[name] = rest.pop(name)
    for group in ("reasoning", "text"):
        if rest.get(group) == {} and parameters.get(group):
            del rest[group]
    return controls, rest


def _takes(control: Control, value: JsonValue) -> bool:
    try:
        check_control(control, value)
    except ControlError:
        return False
    return True
