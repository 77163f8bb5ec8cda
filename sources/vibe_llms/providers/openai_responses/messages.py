"""Messages of ``openai_responses``: they are items."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.dialects.responses import nativize_canisters, normalize_messages
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.plain import JsonObject
from vibe_llms.providers.interfaces import ModelDescriptor, Translation
from vibe_llms.providers.openai_responses.controls import OPENAI


class OpenAIResponsesMessagesProcessor:
    """Translates canisters; what another provider sealed is withheld."""

    def nativize(
        self, canisters: Sequence[AnyCanister], model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns ``input``, and perhaps ``instructions``. Raises RequestError."""
        return nativize_canisters(canisters, model.attributes, OPENAI, provider=model.provider)

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[AnyCanister, ...]]:
        """Returns the canisters. Raises RequestError."""
        return normalize_messages(native)
