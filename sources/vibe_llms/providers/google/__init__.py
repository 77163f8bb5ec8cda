"""The provider ``google``: Gemini models, by the Gemini API or by Vertex AI.

The dialect is generateContent. With ``project`` or ``cloud = "vertex"`` in its settings the models
are those of Vertex AI, and the key is an access token, which expires: point ``api_key_file`` at one
that is kept fresh. What the settings leave open is looked for in ``GOOGLE_CLOUD_PROJECT`` and
``GOOGLE_CLOUD_LOCATION``.
Vertex AI has been tried against a simulator only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification import (
    ANY_NAME,
    ModelAttributesSpecification,
    ProviderContext,
    ProviderSpecification,
)
from vibe_llms.resources import access_data

if TYPE_CHECKING:
    from vibe_llms.providers.interfaces import Provider


@hook
def survey_providers() -> list[ProviderSpecification]:
    """Names what there is here: the service, under whatever names."""
    return [ProviderSpecification(ANY_NAME, "Gemini, by Google", produce_provider)]


@hook
def survey_model_attributes() -> list[ModelAttributesSpecification]:
    """Says what is known of the models of a provider that has a name of its own."""
    return [ModelAttributesSpecification(ANY_NAME, access_data("providers", "google"))]


def produce_provider(context: ProviderContext) -> Provider:
    """Makes the provider."""
    from vibe_llms.providers.remote import RemoteProvider

    if "project" in context.settings or "cloud" in context.settings:
        from vibe_llms.providers.google.vertex import VertexVendor

        return RemoteProvider(context, VertexVendor)
    from vibe_llms.providers.google.client import GoogleVendor

    return RemoteProvider(context, GoogleVendor)
