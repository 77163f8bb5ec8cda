"""Controls as ``generationConfig``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.generate_content.tables import CONFIG, LEVELS, PLACES, THINKING
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.request_paths import look_up, put
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import Capability, ModelAttributes
from vibe_llms.models.controls import check_controls


def nativize_controls(
    controls: Mapping[str, JsonValue], attributes: ModelAttributes, quirks: Quirks
) -> Translation[JsonObject]:
    """Return ``generationConfig`` and the fields beside it; empty without controls.

    Raises:
        ControlError: The model does not have the control, or the value is invalid.
    """
    ledger = Ledger(protocol=PROTOCOL)
    native: dict[str, Any] = {}
    for name, value in check_controls(controls, attributes.controls).items():
        if name == "background":
            ledger.drop(f"controls.{name}", "this protocol has no such parameter")
        elif name == "reasoning_effort":
            _put_effort(str(value), native, ledger)
        elif name == "parallel_invocations":
            if not value:
                ledger.drop(f"controls.{name}", "this protocol cannot forbid parallel calls")
        else:
            put(native, PLACES.get(name, (CONFIG, name)), value)
    if quirks.shows_thoughts and _will_think(look_up(native, THINKING), attributes):
        put(native, (*THINKING, "includeThoughts"), True)
    return Translation(native, ledger.losses)


def _put_effort(effort: str, native: dict[str, Any], ledger: Ledger) -> None:
    path = "controls.reasoning_effort"
    if effort in LEVELS:
        put(native, PLACES["reasoning_effort"], effort)
    elif effort == "none":
        put(native, PLACES["reasoning_budget_tokens"], 0)
        ledger.coerce(path, "no effort is sent as a budget of 0 tokens")
    else:
        put(native, PLACES["reasoning_effort"], "xhigh")
        ledger.coerce(path, f"{effort!r} is sent as 'xhigh', the highest level")


def _will_think(config: Mapping[str, Any] | None, attributes: ModelAttributes) -> bool:
    """Return whether the model will think: by the request, or otherwise by its attributes."""
    if config:
        return config.get("thinkingBudget") != 0
    return attributes.access_capability("supports_reasoning") is Capability.YES
