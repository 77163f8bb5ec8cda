"""Controls of ``ollama``: options and ``think``."""

from __future__ import annotations

from collections.abc import Mapping

from vibe_llms.dialects.ollama_chat.controls import nativize_controls, normalize_controls
from vibe_llms.dialects.ollama_chat.quirks import Quirks
from vibe_llms.messages.losses import Translation
from vibe_llms.plain import JsonObject, JsonValue
from vibe_llms.providers.interfaces import ModelDescriptor

QUIRKS = Quirks()


class OllamaControlsProcessor:
    """Checks the values and names the options."""

    def nativize(
        self, controls: Mapping[str, JsonValue], model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns ``options`` and ``think``. Raises ControlError."""
        return nativize_controls(controls, model.attributes, QUIRKS)

    def normalize(
        self, parameters: JsonObject, model: ModelDescriptor
    ) -> Translation[Mapping[str, JsonValue]]:
        """Returns the control values."""
        return normalize_controls(parameters, model.attributes)
