"""The provider ``openai_conversations``: OpenAI's models by Chat Completions.

Use it for conversations that another service will continue; ``openai_responses`` supports more
features of these models. With ``transport = "sdk"`` the requests go through OpenAI's package: with
``azure_endpoint`` and ``azure_api_version`` to Azure, which has been tried against a simulator
only.
"""

from __future__ import annotations

from vibe_llms.providers.offering import REMOTE, offer_attributes, offer_provider

survey_providers, produce_provider = offer_provider(
    "OpenAI's models, by Chat Completions",
    REMOTE,
    "vibe_llms.providers.openai_conversations.client:OpenAIVendor",
)
survey_model_attributes = offer_attributes("openai_conversations")
