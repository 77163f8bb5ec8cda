"""The provider ``openai_responses``: OpenAI's models, by the Responses protocol.

The conversation stays ours: the vendor is asked to store nothing, and hands out reasoning signed
(see :mod:`vibe_llms.dialects.responses.calling.requests` for how to have it otherwise). Other
services that speak the protocol are reached by ``base_url``. Azure is reached by
``transport = "sdk"``, with the settings ``azure_endpoint`` and ``azure_api_version``, or with a
client object of the official library; it has been tried against a simulator only.
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
    return [ProviderSpecification(ANY_NAME, "OpenAI, by its Responses", produce_provider)]


@hook
def survey_model_attributes() -> list[ModelAttributesSpecification]:
    """Says what is known of the models of a provider that has a name of its own."""
    return [ModelAttributesSpecification(ANY_NAME, access_data("providers", "openai_responses"))]


def produce_provider(context: ProviderContext) -> Provider:
    """Makes the provider."""
    from vibe_llms.providers.openai_responses.client import OpenAIResponsesVendor
    from vibe_llms.providers.remote import RemoteProvider

    return RemoteProvider(context, OpenAIResponsesVendor)
