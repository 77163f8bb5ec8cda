"""The provider ``ollama``: models that an Ollama server runs, here or in its cloud.

It speaks Ollama's own chat. Besides the rooms that every provider has: ``windows`` (how large a
window a request needs), ``learning`` (what the server says of its models) and ``pulling`` (how a
missing one is fetched).
"""

from __future__ import annotations

from vibe_llms.providers.offering import offer_provider

survey_providers, produce_provider = offer_provider(
    "asks an Ollama server, by default the one on this machine; needs no key",
    "vibe_llms.providers.ollama.client:OllamaProvider",
    "vibe_llms.providers.ollama.client:OllamaVendor",
    name="ollama",
)
