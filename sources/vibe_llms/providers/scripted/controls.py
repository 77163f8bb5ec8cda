"""Controls of ``scripted``: its own words are ours, so nothing is translated."""

from __future__ import annotations

from collections.abc import Mapping

from vibe_llms.models.controls import check_controls
from vibe_llms.plain import JsonObject, JsonValue
from vibe_llms.providers.interfaces import ModelDescriptor, Translation


class ScriptedControlsProcessor:
    """Checks the values; a script does not mind them."""

    def nativize(
        self, controls: Mapping[str, JsonValue], model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns the values as they are. Raises ControlError."""
        return Translation(check_controls(controls, model.attributes.controls))

    def normalize(
        self, parameters: JsonObject, model: ModelDescriptor
    ) -> Translation[Mapping[str, JsonValue]]:
        """Returns the values as they are."""
        return Translation(parameters)
