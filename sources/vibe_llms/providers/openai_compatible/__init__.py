"""The providers of kind ``openai_compatible``: services that differ only in data.

``[providers.NAME]`` with this module and ``kind = "groq"`` is one of the shipped kinds; any other
service needs a ``base_url`` and optionally a table ``quirks``. The user's quirks override the
kind's. A module that other providers do not have: ``kinds`` reads the data and reports all errors.
"""

from __future__ import annotations

from vibe_llms.providers.offering import REMOTE, offer_attributes, offer_provider

survey_providers, produce_provider = offer_provider(
    "a service with the Chat Completions protocol",
    REMOTE,
    "vibe_llms.providers.openai_compatible.client:CompatibleVendor",
)
survey_model_attributes = offer_attributes("openai_compatible")
