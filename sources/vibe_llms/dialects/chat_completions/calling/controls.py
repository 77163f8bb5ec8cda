"""Controls as parameters of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.dialects.request_paths import put
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.controls import check_controls


def nativize_controls(
    controls: Mapping[str, JsonValue], attributes: ModelAttributes, quirks: Quirks
) -> Translation[JsonObject]:
    """Return the parameters; a control that only a model's attributes define keeps its name.

    Raises:
        ControlError: The model does not have the control, or the value is invalid.
    """
    checked = check_controls(controls, attributes.controls)
    native: dict[str, Any] = {}
    losses: list[Loss] = []
    for name, value in checked.items():
        if name == "stop":
            value, stop_losses = _write_stop(value, quirks)
            losses += stop_losses
        if name == "reasoning_effort" and quirks.switches_thinking:
            native["thinking"] = {"type": "disabled" if value == "none" else "enabled"}
            if value == "none":
                continue
        put(native, quirks.fields.get(name, name).split("."), value)
    return Translation(native, losses)


def _write_stop(value: Any, quirks: Quirks) -> tuple[JsonValue, tuple[Loss, ...]]:
    """Return the stop sequences, up to the vendor's maximum."""
    limit = quirks.maximum_stops
    if limit is None or len(value) <= limit:
        return value, ()
    reason = f"the vendor accepts at most {limit} stop sequences; only the first are sent"
    return value[:limit], (Loss(kind=LossKind.DROPPED, path="controls.stop", reason=reason),)
