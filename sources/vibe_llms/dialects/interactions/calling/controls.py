"""Controls as ``generation_config``, and the fields beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.interactions.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.interactions.tables import CONFIG, LEVELS, PLACES, WITHOUT_PLACE
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.request_paths import look_up, put
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import Capability, ModelAttributes
from vibe_llms.models.controls import check_controls


def nativize_controls(
    controls: Mapping[str, JsonValue], attributes: ModelAttributes, quirks: Quirks
) -> Translation[JsonObject]:
    """Return the parameters; a control that only a model's attributes define keeps its name.

    Raises:
        ControlError: The model does not have the control, or the value is invalid.
    """
    ledger = Ledger(protocol=PROTOCOL)
    native: dict[str, Any] = {}
    for name, value in check_controls(controls, attributes.controls).items():
        path = f"controls.{name}"
        if name in WITHOUT_PLACE:
            ledger.drop(path, "this protocol has no such parameter")
        elif name == "reasoning_effort":
            put(native, PLACES[name], _choose_level(str(value), path, ledger))
        elif name == "reasoning_summary":
            if value != "auto":
                ledger.coerce(path, f"{value!r} is sent as 'auto', the only style")
            put(native, PLACES[name], "auto")
        else:
            put(native, PLACES.get(name, (CONFIG, name)), value)
    summaries = PLACES["reasoning_summary"]
    reasons = attributes.access_capability("supports_reasoning") is Capability.YES
    if quirks.shows_thoughts and reasons and look_up(native, summaries) is None:
        put(native, summaries, "auto")
    return Translation(native, ledger.losses)


def _choose_level(effort: str, path: str, ledger: Ledger) -> str:
    if effort in LEVELS:
        return effort
    level = "minimal" if effort == "none" else "xhigh"
    place = "lowest" if effort == "none" else "highest"
    ledger.coerce(path, f"{effort!r} is sent as {level!r}, the {place} level")
    return level
