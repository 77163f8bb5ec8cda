"""The control values in a client's request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.tables import FIELDS, LEVELS, THINKING_FIELDS, TOP_FIELDS
from vibe_llms.dialects.serving import fits_control
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.plain import JsonValue


def normalize_controls(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Returns the control values in a request; what is no control is left to its residue.

    Args:
        attributes: Of the model that shall be asked: a control that it has not is none. Without
            them all that the dialect knows are taken.
    """
    top = camelize(native)
    config = camelize(top.get("generationConfig") or {})
    thinking = camelize(config.get("thinkingConfig") or {})
    sources = ((FIELDS, config), (THINKING_FIELDS, thinking), (TOP_FIELDS, top))
    controls: dict[str, JsonValue] = {}
    for table, fields in sources:
        for name, field in table.items():
            value = fields.get(field)
            if name == "reasoning_effort":
                value = str(value).lower()
                if value not in LEVELS:
                    continue
            # A budget of -1 lets the model choose, and there is no common word for that.
            if value is not None and fits_control(name, value, attributes):
                controls[name] = value
    return Translation(controls)


def remove_controls(native: dict[str, Any], controls: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Returns a request's parameters without those which have become controls."""
    rest = dict(native)
    config = camelize(rest.pop("generationConfig", None) or {})
    thinking = camelize(config.pop("thinkingConfig", None) or {})
    for name in controls:
        for table, fields in ((FIELDS, config), (THINKING_FIELDS, thinking), (TOP_FIELDS, rest)):
            if name in table:
                fields.pop(table[name], None)
    if thinking:
        config["thinkingConfig"] = thinking
    if config:
        rest["generationConfig"] = config
    return rest
