"""The providers of kind ``openai_compatible``: services that differ by data alone.

``[providers.NAME]`` with this module and ``kind = "groq"`` is one of the kinds that ship, with a
``base_url`` and a table ``quirks`` any other. A quirk that the user sets holds before the kind's.
Besides the rooms that every provider has: ``kinds`` reads the data, and says all their mistakes.
"""

from __future__ import annotations

from vibe_llms.providers.offering import REMOTE, offer_attributes, offer_provider

survey_providers, produce_provider = offer_provider(
    "a service that speaks Chat Completions",
    REMOTE,
    "vibe_llms.providers.openai_compatible.client:CompatibleVendor",
)
survey_model_attributes = offer_attributes("openai_compatible")
