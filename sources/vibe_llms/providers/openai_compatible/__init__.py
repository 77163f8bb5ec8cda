"""The providers of kind ``openai_compatible``: services that differ by data alone.

``[providers.NAME]`` with this module and ``kind = "groq"`` is one of the kinds that ship, with a
``base_url`` and a table ``quirks`` any other. A quirk that the user sets holds before the kind's.
Besides the rooms that every provider has: ``kinds`` reads the data, and says all their mistakes.
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
    """Names what there is here: any number of providers, under whatever names."""
    summary = "a service that speaks Chat Completions"
    return [ProviderSpecification(ANY_NAME, summary, produce_provider)]


@hook
def survey_model_attributes() -> list[ModelAttributesSpecification]:
    """Says what is known of the models of a provider that has a name of its own."""
    return [ModelAttributesSpecification(ANY_NAME, access_data("providers", "openai_compatible"))]


def produce_provider(context: ProviderContext) -> Provider:
    """Makes the provider."""
    from vibe_llms.providers.openai_compatible.client import CompatibleVendor
    from vibe_llms.providers.remote import RemoteProvider

    return RemoteProvider(context, CompatibleVendor)
