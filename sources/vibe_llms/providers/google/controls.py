"""Controls of ``google``: they are ``generationConfig``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.dialects.generate_content import Quirks, nativize_controls, normalize_controls
from vibe_llms.plain import JsonObject, JsonValue
from vibe_llms.providers.interfaces import ModelDescriptor, Translation

GEMINI: Final = Quirks(shows_thoughts=True, takes_display_names=False)
"""The Gemini API: thoughts are asked for, and data inline have no name."""

VERTEX: Final = Quirks(shows_thoughts=True)
"""Vertex AI."""


class GoogleControlsProcessor:
    """Translates values of models that think, or do not, as their attributes say."""

    def nativize(
        self, controls: Mapping[str, JsonValue], model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns the parameters. Raises ControlError."""
        return nativize_controls(controls, model.attributes, GEMINI)

    def normalize(
        self, parameters: JsonObject, model: ModelDescriptor
    ) -> Translation[Mapping[str, JsonValue]]:
        """Returns the control values that the model knows."""
        return normalize_controls(parameters, model.attributes)
