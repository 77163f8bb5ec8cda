"""The provider ``openai_responses``: OpenAI's models, by the Responses protocol.

The conversation is stored by the client: requests tell the vendor to store nothing, and the vendor
    returns signed reasoning (see :mod:`vibe_llms.dialects.responses.calling.requests` for how to
    change that). Other services with this protocol are reached by ``base_url``. Azure is reached by
    ``transport = "sdk"``, with the settings ``azure_endpoint`` and ``azure_api_version``, or with a
    client object of the official library; it has been tried against a simulator only.
"""

from __future__ import annotations

from vibe_llms.providers.offering import REMOTE, offer_attributes, offer_provider

survey_providers, produce_provider = offer_provider(
    "OpenAI, by its Responses",
    REMOTE,
    "vibe_llms.providers.openai_responses.client:OpenAIResponsesVendor",
)
survey_model_attributes = offer_attributes("openai_responses")
