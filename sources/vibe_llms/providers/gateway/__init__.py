"""The provider ``remote``: the models of another vibe-llms, through its gateway.

It uses the protocol ``converse`` of vibe-llms, which is lossless. Modules that other providers do
not have: ``learning`` (the attributes that the other side reports) and ``relaying`` (responses with
the origin that the other side reports). To use several gateways, write one table with this module
for each.
"""

from __future__ import annotations

from vibe_llms.providers.offering import offer_attributes, offer_provider

survey_providers, produce_provider = offer_provider(
    "connects to another vibe-llms through its gateway",
    "vibe_llms.providers.gateway.client:GatewayProvider",
    "vibe_llms.providers.gateway.client:GatewayVendor",
)
survey_model_attributes = offer_attributes("remote")
