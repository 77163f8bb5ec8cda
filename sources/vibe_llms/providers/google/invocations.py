"""Invocables of ``google``: functions, and the vendor's own tools."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.dialects.generate_content import nativize_invocables, normalize_invocables
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.plain import JsonObject
from vibe_llms.providers.interfaces import ModelDescriptor, Translation


class GoogleInvocationsProcessor:
    """Translates descriptions and the choice."""

    def nativize(
        self, invocables: Sequence[InvocableDescription], choice: str, model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns ``tools`` and ``toolConfig``."""
        return nativize_invocables(invocables, choice, provider=model.provider)

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
        """Returns the descriptions and the choice."""
        return normalize_invocables(native)
