"""Controls of ``openai_responses``: they are parameters of the request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.dialects.responses import Quirks, nativize_controls, normalize_controls
from vibe_llms.plain import JsonObject, JsonValue
from vibe_llms.providers.interfaces import ModelDescriptor, Translation
from vibe_llms.providers.openai_service import SIBLINGS

OPENAI: Final = Quirks(supervisor_role="developer", siblings=SIBLINGS)
"""OpenAI itself: instructions have the role that its newer models know."""


class OpenAIResponsesControlsProcessor:
    """Translates values."""

    def nativize(
        self, controls: Mapping[str, JsonValue], model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns the parameters. Raises ControlError."""
        return nativize_controls(controls, model.attributes, OPENAI)

    def normalize(
        self, parameters: JsonObject, model: ModelDescriptor
    ) -> Translation[Mapping[str, JsonValue]]:
        """Returns the control values that the model knows."""
        return normalize_controls(parameters, model.attributes)
