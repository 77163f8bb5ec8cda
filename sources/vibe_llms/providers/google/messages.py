"""Messages of ``google``: they are ``contents`` and ``systemInstruction``."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.dialects.generate_content import nativize_canisters, normalize_messages
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.plain import JsonObject
from vibe_llms.providers.google.controls import GEMINI
from vibe_llms.providers.interfaces import ModelDescriptor, Translation


class GoogleMessagesProcessor:
    """Translates canisters; what another provider sealed is withheld."""

    def nativize(
        self, canisters: Sequence[AnyCanister], model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns the conversation. Raises RequestError."""
        return nativize_canisters(canisters, model.attributes, GEMINI, provider=model.provider)

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[AnyCanister, ...]]:
        """Returns the canisters. Raises RequestError."""
        return normalize_messages(native)
