"""The provider ``remote``: the models of another vibe-llms, asked through its gateway.

It speaks our own protocol, in which nothing is lost. Besides the rooms that every provider has:
``learning`` (what the other side says of its models) and ``relaying`` (answers that were put
together there). Another gateway is another table with this module.
"""

from __future__ import annotations

from vibe_llms.providers.offering import offer_attributes, offer_provider

survey_providers, produce_provider = offer_provider(
    "asks another vibe-llms through its gateway",
    "vibe_llms.providers.gateway.client:GatewayProvider",
    "vibe_llms.providers.gateway.client:GatewayVendor",
)
survey_model_attributes = offer_attributes("remote")
