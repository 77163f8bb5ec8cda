"""Controls as parameters of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.request_paths import put
from vibe_llms.dialects.responses.quirks import Quirks
from vibe_llms.dialects.responses.tables import PLACES, WITHOUT_PLACE
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
    del quirks  # no vendor of this dialect has quirks
    native: dict[str, Any] = {}
    losses = []
    for name, value in check_controls(controls, attributes.controls).items():
        if name in WITHOUT_PLACE:
            reason = "this protocol has no such parameter"
            losses.append(Loss(kind=LossKind.DROPPED, path=f"controls.{name}", reason=reason))
            continue
        put(native, PLACES.get(name, (name,)), value)
    return Translation(native, losses)
