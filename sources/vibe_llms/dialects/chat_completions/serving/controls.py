"""The control values in a client's request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.serving import fits_control
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.plain import JsonValue

SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "frequency_penalty": ("frequency_penalty",),
    "max_tokens": ("max_completion_tokens", "max_tokens"),
    "min_p": ("min_p",),
    "parallel_invocations": ("parallel_tool_calls",),
    "presence_penalty": ("presence_penalty",),
    "reasoning_effort": ("reasoning_effort",),
    "repeat_penalty": ("repeat_penalty", "repetition_penalty"),
    "seed": ("seed", "random_seed"),
    "service_tier": ("service_tier",),
    "stop": ("stop",),
    "temperature": ("temperature",),
    "top_k": ("top_k",),
    "top_p": ("top_p",),
    "verbosity": ("verbosity",),
}
"""From a control to the fields in which vendors of this dialect take it."""


def normalize_controls(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Returns the control values in a request.

    What the model's attributes define no control for, or a value beyond its control, stays where
    it is: :func:`~vibe_llms.dialects.chat_completions.normalize_request` keeps it as native.

    Args:
        attributes: Of the model; by default every control that the dialect knows is one.
    """
    names = dict(SPELLINGS)
    for control in attributes.controls if attributes else ():
        names.setdefault(control.name, (control.name,))
    controls: dict[str, JsonValue] = {}
    for name, fields in names.items():
        field = next((field for field in fields if native.get(field) is not None), None)
        if field is None or field in _OTHERS:
            continue
        value = native[field]
        if name == "stop" and isinstance(value, str):
            value = [value]
        if fits_control(name, value, attributes):
            controls[name] = value
    return Translation(controls)


def list_fields(native: Mapping[str, Any], controls: Mapping[str, JsonValue]) -> list[str]:
    """Returns the fields of a request from which the control values were read."""
    spellings = (SPELLINGS.get(name, (name,)) for name in controls)
    return [next(each for each in names if native.get(each) is not None) for names in spellings]


_OTHERS: Final = frozenset({"messages", "model", "tools", "response_format", "tool_choice"})
"""Fields of a request which other processors read, whatever a model's data call a control."""
