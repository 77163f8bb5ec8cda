"""The provider ``cohere``: conversations, embeddings and rankings by Cohere."""

from __future__ import annotations

from vibe_llms.providers.offering import REMOTE, offer_attributes, offer_provider

survey_providers, produce_provider = offer_provider(
    "Command, Embed and Rerank, by Cohere",
    REMOTE,
    "vibe_llms.providers.cohere.client:CohereVendor",
)
survey_model_attributes = offer_attributes("cohere")
