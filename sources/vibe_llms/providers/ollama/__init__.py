"""The provider ``ollama``: models that an Ollama server runs, here or in its cloud.

It speaks Ollama's own chat. Besides the rooms that every provider has: ``windows`` (how large a
window a request needs), ``learning`` (what the server says of its models) and ``pulling`` (how a
missing one is fetched).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification import ProviderContext, ProviderSpecification

if TYPE_CHECKING:
    from vibe_llms.providers.interfaces import Provider


@hook
def survey_providers() -> list[ProviderSpecification]:
    """Names the one provider that there is here."""
    summary = "asks an Ollama server, by default the one on this machine; needs no key"
    return [ProviderSpecification("ollama", summary, produce_provider)]


def produce_provider(context: ProviderContext) -> Provider:
    """Makes the provider."""
    from vibe_llms.providers.ollama.client import OllamaProvider, OllamaVendor

    return OllamaProvider(context, OllamaVendor)
