"""Controls of ``scripted``: its own words are ours, so nothing is translated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from vibe_llms.messages.requests import Request
from vibe_llms.models.controls import check_controls
from vibe_llms.plain import JsonObject, JsonValue
from vibe_llms.providers.interfaces import ModelDescriptor, Translation


class ScriptedControlsProcessor:
    """Checks the values; a script does not mind them."""

    def nativize(self, request: Request, model: ModelDescriptor, /) -> Translation[JsonObject]:
        """Returns ``{"controls": …}``, the values as they are. Raises ControlError."""
        checked = check_controls(request.controls, model.attributes.controls)
        return Translation({"controls": checked})

    def normalize(
        self, native: JsonObject, model: ModelDescriptor, /
    ) -> Translation[Mapping[str, JsonValue]]:
        """Returns the values as they are."""
        return Translation(cast(Mapping[str, JsonValue], native["controls"]))
