"""The provider ``anthropic``: Claude models, by Anthropic or by a cloud that hosts them.

The dialect is Messages. With ``transport = "sdk"`` the official package carries the requests,
and ``cloud`` says whose models they are: ``bedrock``, ``vertex`` or ``foundry``. The clouds have
been tried against a simulator only.
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
    """Names what there is here: the service, under whatever names."""
    return [ProviderSpecification(ANY_NAME, "Claude, by Anthropic", produce_provider)]


@hook
def survey_model_attributes() -> list[ModelAttributesSpecification]:
    """Says what is known of the models of a provider that has a name of its own."""
    return [ModelAttributesSpecification(ANY_NAME, access_data("providers", "anthropic"))]


def produce_provider(context: ProviderContext) -> Provider:
    """Makes the provider."""
    from vibe_llms.providers.anthropic.client import AnthropicVendor
    from vibe_llms.providers.remote import RemoteProvider

    return RemoteProvider(context, AnthropicVendor)
