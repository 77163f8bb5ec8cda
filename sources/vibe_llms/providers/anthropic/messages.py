"""Messages of ``anthropic``: they are ``system`` and ``messages``."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.dialects.messages import Quirks, nativize_canisters, normalize_messages
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.plain import JsonObject
from vibe_llms.providers.interfaces import ModelDescriptor, Translation


class AnthropicMessagesProcessor:
    """Translates canisters; what another provider sealed is withheld."""

    def nativize(
        self, canisters: Sequence[AnyCanister], model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns the conversation. Raises RequestError."""
        return nativize_canisters(canisters, model.attributes, Quirks(), provider=model.provider)

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[AnyCanister, ...]]:
        """Returns the canisters. Raises RequestError."""
        return normalize_messages(native)
