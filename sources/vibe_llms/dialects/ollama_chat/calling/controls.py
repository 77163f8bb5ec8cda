"""Controls as ``options`` and ``think``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.ollama_chat.tables import OPTIONS_BY_CONTROL, WITHOUT_PLACE
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.controls import check_controls

_NEAR_LEVELS: Final = {"minimal": "low", "xhigh": "max"}


def nativize_controls(
    controls: Mapping[str, JsonValue], attributes: ModelAttributes, quirks: Quirks
) -> Translation[JsonObject]:
    """Return ``options`` and ``think``; a control that only a model's attributes define is an
    option.

    Raises:
        ControlError: The model does not have the control, or the value is invalid.
    """
    ledger = Ledger(protocol=PROTOCOL)
    options: dict[str, JsonValue] = {}
    native: dict[str, JsonValue] = {}
    for name, value in check_controls(controls, attributes.controls).items():
        if name == "reasoning_effort":
            native["think"] = _nativize_effort(str(value), ledger)
        elif name in WITHOUT_PLACE:
            ledger.drop(f"controls.{name}", "this protocol has no such parameter")
        else:
            options[OPTIONS_BY_CONTROL.get(name, name)] = value
    if options:
        native["options"] = options
    return Translation(native, ledger.losses)


def _nativize_effort(effort: str, ledger: Ledger) -> JsonValue:
    if effort == "none":
        return False
    if effort in _NEAR_LEVELS:
        near = _NEAR_LEVELS[effort]
        ledger.coerce(
            "controls.reasoning_effort", f"{effort!r} is sent as {near!r}, the nearest level"
        )
        return near
    return effort
