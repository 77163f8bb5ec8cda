"""The provider ``openai_conversations``: OpenAI's models by Chat Completions.

For conversations that another service shall be able to go on with; ``openai_responses`` reaches
more of what these models can do. With ``transport = "sdk"`` the requests go through OpenAI's own
package: with ``azure_endpoint`` and ``azure_api_version`` to Azure, which has been tried against a
simulator only.
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
    summary = "OpenAI's models, by Chat Completions"
    return [ProviderSpecification(ANY_NAME, summary, produce_provider)]


@hook
def survey_model_attributes() -> list[ModelAttributesSpecification]:
    """Says what is known of the models of a provider that has a name of its own."""
    directory = access_data("providers", "openai_conversations")
    return [ModelAttributesSpecification(ANY_NAME, directory)]


def produce_provider(context: ProviderContext) -> Provider:
    """Makes the provider."""
    from vibe_llms.providers.openai_conversations.client import OpenAIVendor
    from vibe_llms.providers.remote import RemoteProvider

    return RemoteProvider(context, OpenAIVendor)
