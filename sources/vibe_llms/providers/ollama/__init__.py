"""The provider ``ollama``: models that an Ollama server runs, locally or in Ollama's cloud.

It uses Ollama's native chat interface. Modules that other providers do not have: ``windows`` (the
window that a request needs), ``learning`` (the server's data about its models) and ``pulling``
(download of missing models).
"""

from __future__ import annotations

from vibe_llms.providers.offering import offer_provider

survey_providers, produce_provider = offer_provider(
    "uses an Ollama server, by default on this machine; needs no key",
    "vibe_llms.providers.ollama.client:OllamaProvider",
    "vibe_llms.providers.ollama.client:OllamaVendor",
    name="ollama",
)
