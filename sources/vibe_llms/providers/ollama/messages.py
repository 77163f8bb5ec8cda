"""Messages of ``ollama``."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.dialects.ollama_chat.messages import nativize_canisters
from vibe_llms.dialects.ollama_chat.reading import normalize_messages
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.losses import Translation
from vibe_llms.plain import JsonObject
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.ollama.controls import QUIRKS


class OllamaMessagesProcessor:
    """Writes canisters as messages and reads messages back."""

    def nativize(
        self, canisters: Sequence[AnyCanister], model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns ``{"messages": […]}``. Raises CapabilityError."""
        return nativize_canisters(canisters, model.attributes, QUIRKS, provider=model.provider)

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[AnyCanister, ...]]:
        """Returns the canisters of a request."""
        return normalize_messages(native)
