"""The provider ``anthropic``: Claude models, by Anthropic or by a cloud that hosts them.

The dialect is Messages. ``cloud`` names another host of the models: ``vertex``, or with
``transport = "sdk"``, by which the official package sends the requests, ``bedrock`` or ``foundry``.
The clouds have been tried against a simulator only.
"""

from __future__ import annotations

from vibe_llms.providers.offering import REMOTE, offer_attributes, offer_provider

survey_providers, produce_provider = offer_provider(
    "Claude, by Anthropic",
    REMOTE,
    "vibe_llms.providers.anthropic.choosing:produce_vendor",
)
survey_model_attributes = offer_attributes("anthropic")
