"""The control values in a client's request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.responses.tables import PLACES, WITHOUT_PLACE
from vibe_llms.dialects.serving import fits_control
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.plain import JsonObject, JsonValue


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
        if fits_control(name, holder[field], attributes):
            controls[name] = holder.pop(field)
    names = {each.name for each in attributes.controls} if attributes else set()
    for name in names - PLACES.keys() - WITHOUT_PLACE:  # those stay as they are
        if rest.get(name) is not None and name in parameters:
            controls[name] = rest.pop(name)
    for group in ("reasoning", "text"):
        if rest.get(group) == {} and parameters.get(group):
            del rest[group]
    return controls, rest
