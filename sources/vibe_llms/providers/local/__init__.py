"""The provider ``local``: real inference in this process, with llama.cpp.

The name of a model is ``smollm2``, whose weights are found or downloaded, or the path of a GGUF
file (``local:./mine.gguf``). Nothing leaves the machine; no key is needed. Modules that other
providers do not have: ``weights`` and ``fetching`` (the model's files), ``inference`` (llama.cpp,
in threads), ``grammars`` (constraints on the answer).
"""

from __future__ import annotations

from vibe_llms.providers.offering import offer_provider

survey_providers, produce_provider = offer_provider(
    "runs a model in this process, with llama.cpp; needs no key",
    "vibe_llms.providers.local.client:LocalProvider",
    name="local",
)
