"""Controls of ``anthropic``: they stand beside the messages."""

from __future__ import annotations

from collections.abc import Mapping

from vibe_llms.dialects.messages import Quirks, nativize_controls, normalize_controls
from vibe_llms.dialects.messages.controls import SAMPLING_FIELDS
from vibe_llms.plain import JsonObject, JsonValue
from vibe_llms.providers.interfaces import ModelDescriptor, Translation


class AnthropicControlsProcessor:
    """Translates values as the attributes of the model allow: newer ones take no temperature."""

    def nativize(
        self, controls: Mapping[str, JsonValue], model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns the parameters. Raises ControlError."""
        return nativize_controls(controls, model.attributes, Quirks())

    def normalize(
        self, parameters: JsonObject, model: ModelDescriptor
    ) -> Translation[Mapping[str, JsonValue]]:
        """Returns the control values that the model knows."""
        return normalize_controls(parameters, model.attributes)


def is_sampled(native: JsonObject) -> bool:
    """Tells whether a request says how tokens are drawn, which newer versions refuse."""
    return any(native.get(name) is not None for name in SAMPLING_FIELDS)
