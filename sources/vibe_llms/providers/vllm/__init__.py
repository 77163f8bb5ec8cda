"""The provider ``vllm``: models that a vLLM server runs, here or elsewhere.

It speaks Chat Completions, and takes more: what is a control goes by its name (``top_k``,
``min_p`` …), and all else of a request's native (``chat_template_kwargs``, ``structured_outputs``
…). With ``start = true`` the server is started as a child, and stopped with us.
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
    summary = "asks a vLLM server, by default the one on this machine; needs no key"
    return [ProviderSpecification("vllm", summary, produce_provider)]


def produce_provider(context: ProviderContext) -> Provider:
    """Makes the provider."""
    from vibe_llms.providers.hosting import HostingProvider
    from vibe_llms.providers.vllm.client import VllmVendor

    return HostingProvider(context, VllmVendor)
