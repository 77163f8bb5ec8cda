"""The provider ``perplexity``: models that search the web before they answer.

The dialect is Chat Completions without tools. The sources of an answer become citations of its
text; what steers the search (``search_mode``, ``search_domain_filter`` …) goes as the native of a
request.
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
    summary = "models that search the web, by Perplexity"
    return [ProviderSpecification("perplexity", summary, produce_provider)]


def produce_provider(context: ProviderContext) -> Provider:
    """Makes the provider."""
    from vibe_llms.providers.perplexity.client import PerplexityVendor
    from vibe_llms.providers.remote import RemoteProvider

    return RemoteProvider(context, PerplexityVendor)
