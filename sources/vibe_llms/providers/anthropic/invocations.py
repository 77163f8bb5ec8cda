"""Invocables of ``anthropic``: tools with a schema, and the vendor's own."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.dialects.messages import nativize_invocables, normalize_invocables
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.plain import JsonObject
from vibe_llms.providers.interfaces import ModelDescriptor, Translation


class AnthropicInvocationsProcessor:
    """Translates descriptions and the choice."""

    def nativize(
        self, invocables: Sequence[InvocableDescription], choice: str, model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns ``tools`` and ``tool_choice``."""
        return nativize_invocables(invocables, choice)

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
        """Returns the descriptions and the choice."""
        return normalize_invocables(native)
