"""The provider ``google``: Gemini models, by the Gemini API or by Vertex AI.

The dialect is generateContent. With ``project`` in its settings the models are those of Vertex AI,
and the key is an access token, which expires: point ``api_key_file`` at one that is kept fresh.
Vertex AI has been tried against a simulator only.
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
    return [ProviderSpecification("google", "Gemini, by Google", produce_provider)]


def produce_provider(context: ProviderContext) -> Provider:
    """Makes the provider."""
    from vibe_llms.providers.remote import RemoteProvider

    if "project" in context.settings:
        from vibe_llms.providers.google.vertex import VertexVendor

        return RemoteProvider(context, VertexVendor)
    from vibe_llms.providers.google.client import GoogleVendor

    return RemoteProvider(context, GoogleVendor)
