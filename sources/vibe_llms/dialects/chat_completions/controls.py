"""Control values as parameters of a request, and back."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.exceptions import ControlError
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.controls import Control, check_control, check_controls
from vibe_llms.plain import JsonObject, JsonValue

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


def nativize_controls(
    controls: Mapping[str, JsonValue], attributes: ModelAttributes, quirks: Quirks
) -> Translation[JsonObject]:
    """Returns the parameters; a control that only a model's data know goes by its own name.

    Raises:
        ControlError: The model has no such control, or the value is outside its domain.
    """
    checked = check_controls(controls, attributes.controls)
    native: dict[str, Any] = {}
    losses: list[Loss] = []
    for name, value in checked.items():
        if name == "stop":
            value, cut = _write_stop(value, quirks)
            losses += cut
        if name == "reasoning_effort" and quirks.switches_thinking:
            native["thinking"] = {"type": "disabled" if value == "none" else "enabled"}
            if value == "none":
                continue
        _put(native, quirks.fields.get(name, name), value)
    return Translation(native, losses)


def _write_stop(value: Any, quirks: Quirks) -> tuple[JsonValue, tuple[Loss, ...]]:
    """Returns the stop sequences, no more than the vendor takes."""
    limit = quirks.maximum_stops
    if limit is None or len(value) <= limit:
        return value, ()
    reason = f"the vendor takes no more than {limit} stop sequences; the first ones go"
    return value[:limit], (Loss(kind=LossKind.DROPPED, path="controls.stop", reason=reason),)


def _put(native: dict[str, Any], field: str, value: JsonValue) -> None:
    *outer, last = field.split(".")
    for name in outer:
        native = native.setdefault(name, {})
    native[last] = value


def normalize_controls(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Returns the control values in a request.

    What the model's attributes define no control for, or a value beyond its control, stays where
    it is: :func:`~vibe_llms.dialects.chat_completions.normalize_request` keeps it as native.

    Args:
        attributes: Of the model; by default every control that the dialect knows is one.
    """
    known = _survey_known() if attributes is None else {c.name: c for c in attributes.controls}
    controls: dict[str, JsonValue] = {}
    names = {**SPELLINGS, **{name: (name,) for name in known if name not in SPELLINGS}}
    for name, fields in names.items():
        field = next((field for field in fields if native.get(field) is not None), None)
        if field is None or name not in known or field in _OTHERS:
            continue
        value = native[field]
        if name == "stop" and isinstance(value, str):
            value = [value]
        try:
            controls[name] = check_control(known[name], value)
        except ControlError:
            continue
    return Translation(controls)


def list_fields(native: Mapping[str, Any], controls: Mapping[str, JsonValue]) -> list[str]:
    """Returns the fields of a request from which the control values were read."""
    spellings = (SPELLINGS.get(name, (name,)) for name in controls)
    return [next(each for each in names if native.get(each) is not None) for names in spellings]


_OTHERS: Final = frozenset({"messages", "model", "tools", "response_format", "tool_choice"})
"""Fields of a request which other processors read, whatever a model's data call a control."""


@functools.cache
def _survey_known() -> Mapping[str, Control]:
    from vibe_llms.models.definitions import produce_control
    from vibe_llms.models.keys import KEYS_BY_NAME

    return {
        name: produce_control(name, KEYS_BY_NAME[name].definition)
        for name in SPELLINGS
        if name in KEYS_BY_NAME
    }
