"""Control values as ``options`` and ``think``, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL, Quirks
from vibe_llms.exceptions import ControlError
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.controls import Control, check_control, check_controls
from vibe_llms.plain import JsonObject, JsonValue

_OPTIONS: Final = {
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

_OPTIONS_BY_CONTROL: Final = {control: option for option, control in _OPTIONS.items()}
_INEXPRESSIBLE: Final = frozenset(
    {
        "parallel_invocations",
        "reasoning_budget_tokens",
        "reasoning_summary",
        "service_tier",
        "verbosity",
    }
)
"""Common controls for which this protocol has neither an option nor a field."""

_LEVELS: Final = ("low", "medium", "high", "max")
_NEAR_LEVELS: Final = {"minimal": "low", "xhigh": "max"}
UNSAID_LEVEL: Final = "medium"
"""What ``"think": true`` stands for: the server takes the model's own measure."""


def nativize_controls(
    controls: Mapping[str, JsonValue], attributes: ModelAttributes, quirks: Quirks
) -> Translation[JsonObject]:
    """Returns ``options`` and ``think``; a control that only a model's data know is an option.

    Raises:
        ControlError: The model has no such control, or the value is outside its domain.
    """
    ledger = Ledger(protocol=PROTOCOL)
    options: dict[str, JsonValue] = {}
    native: dict[str, JsonValue] = {}
    for name, value in check_controls(controls, attributes.controls).items():
        if name == "reasoning_effort":
            native["think"] = _nativize_effort(str(value), ledger)
        elif name in _INEXPRESSIBLE:
            ledger.drop(f"controls.{name}", "this protocol cannot say it")
        else:
            options[_OPTIONS_BY_CONTROL.get(name, name)] = value
    if options:
        native["options"] = options
    return Translation(native, ledger.losses)


def _nativize_effort(effort: str, ledger: Ledger) -> JsonValue:
    if effort == "none":
        return False
    if effort in _NEAR_LEVELS:
        near = _NEAR_LEVELS[effort]
        ledger.coerce("controls.reasoning_effort", f"{effort!r} goes as {near!r}, the nearest")
        return near
    return effort


def normalize_controls(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Returns the control values in a request; what is none stays where it was.

    Args:
        attributes: Of the model that is asked; without them all common controls count.
    """
    return Translation(split_controls(native, attributes)[0])


def split_controls(
    native: Mapping[str, Any], attributes: ModelAttributes | None
) -> tuple[dict[str, JsonValue], dict[str, Any]]:
    """Returns the controls of a request, and what remains of its ``options`` and ``think``."""
    controls: dict[str, JsonValue] = {}
    residue: dict[str, Any] = {}
    options = native.get("options")
    if isinstance(options, Mapping):
        left: dict[str, Any] = {}
        for option, value in options.items():
            name = _OPTIONS.get(str(option), str(option))
            # A text alone is no list of stops to the server either.
            if _fits(name, value, attributes):
                controls[name] = value
            else:
                left[option] = value
        if left:
            residue["options"] = left
    elif options is not None:
        residue["options"] = options
    think = native.get("think")
    if think is not None:
        effort = _normalize_think(think)
        if effort is not None and _fits("reasoning_effort", effort, attributes):
            controls["reasoning_effort"] = effort
        if think is True or "reasoning_effort" not in controls:
            residue["think"] = think
    return controls, residue


def _normalize_think(think: object) -> str | None:
    if think is False:
        return "none"
    if think is True:
        return UNSAID_LEVEL
    return think if isinstance(think, str) and think in _LEVELS else None


def _fits(name: str, value: Any, attributes: ModelAttributes | None) -> bool:
    """Tells whether a value can be that of a control."""
    control = attributes.access_control(name) if attributes else _access_common_control(name)
    if control is None:
        return False
    try:
        check_control(control, value)
    except ControlError:
        return False
    return True


def _access_common_control(name: str) -> Control | None:
    from vibe_llms.models.definitions import produce_control
    from vibe_llms.models.keys import KEYS_BY_NAME

    if name not in _OPTIONS_BY_CONTROL and name != "reasoning_effort":
        return None
    return produce_control(name, KEYS_BY_NAME[name].definition)
