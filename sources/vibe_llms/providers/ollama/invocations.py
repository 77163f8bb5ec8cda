"""Invocables of ``ollama``: tools."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.dialects.ollama_chat.invocations import nativize_invocables, normalize_invocables
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Translation
from vibe_llms.plain import JsonObject
from vibe_llms.providers.interfaces import ModelDescriptor


class OllamaInvocationsProcessor:
    """Describes invocables as tools; the server has no word for the choice among them."""

    def nativize(
        self, invocables: Sequence[InvocableDescription], choice: str, model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns ``tools``."""
        return nativize_invocables(invocables, choice, provider=model.provider)

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
        """Returns the descriptions in a client's request."""
        return normalize_invocables(native)
