"""The provider ``openai_responses``: OpenAI's models, by the Responses protocol.

The conversation stays ours: the vendor is asked to store nothing, and hands out reasoning sealed
(see :mod:`vibe_llms.dialects.responses.bodies` for how to have it otherwise). Other services that
speak the protocol are reached by ``base_url``. Azure is reached by ``transport = "sdk"``, with the
settings ``azure_endpoint`` and ``azure_api_version``, or with a client object of the official
library; it has been tried against a simulator only.
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
    return [ProviderSpecification("openai_responses", "OpenAI, by its Responses", produce_provider)]


def produce_provider(context: ProviderContext) -> Provider:
    """Makes the provider."""
    from vibe_llms.providers.openai_responses.client import OpenAIResponsesVendor
    from vibe_llms.providers.remote import RemoteProvider

    return RemoteProvider(context, OpenAIResponsesVendor)
