"""The provider ``local``: real inference in this process, with llama.cpp.

The name of a model is ``smollm2``, whose weights are found or fetched, or the path of a GGUF
file (``local:./mine.gguf``). Nothing leaves the machine; no key is needed. Besides the rooms
that every provider has: ``weights`` and ``fetching`` (where the model is), ``inference`` and
``seats`` (llama.cpp, in threads), ``grammars`` (what the answer is held to).
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
    summary = "runs a model in this process, with llama.cpp; needs no key"
    return [ProviderSpecification("local", summary, produce_provider)]


def produce_provider(context: ProviderContext) -> Provider:
    """Makes the provider."""
    from vibe_llms.providers.local.client import LocalProvider

    return LocalProvider(context)
