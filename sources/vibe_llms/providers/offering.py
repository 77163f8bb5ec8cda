"""Plugin hooks of a module with one provider: they import nothing of it before it is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.foundation.package_data import access_data
from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.models import (
    ANY_NAME,
    ModelAttributesSpecification,
    ProviderContext,
    ProviderSpecification,
)

if TYPE_CHECKING:
    from vibe_llms.providers.interfaces import Provider

REMOTE: Final = "vibe_llms.providers.remote:RemoteProvider"
HOSTING: Final = "vibe_llms.providers.hosting:HostingProvider"


def offer_provider(
    summary: str, provider: str, vendor: str = "", *, name: str = ANY_NAME
) -> tuple[Callable[[], list[ProviderSpecification]], Callable[[ProviderContext], Provider]]:
    """Make the hook ``survey_providers``, and the factory that it names.

    Args:
        summary: The provider in one line.
        provider: Its class, as ``module:Class``.
        vendor: Its second argument besides the context, likewise; optional.
        name: The provider's name; by default the one in the configuration.
    """

    def produce_provider(context: ProviderContext) -> Provider:
        parts = [_access(vendor)] if vendor else []
        made: Provider = _access(provider)(context, *parts)
        return made

    @hook
    def survey_providers() -> list[ProviderSpecification]:
        return [ProviderSpecification(name, summary, produce_provider)]

    return survey_providers, produce_provider


def offer_attributes(folder: str) -> Callable[[], list[ModelAttributesSpecification]]:
    """Make the hook ``survey_model_attributes``, for providers with names of their own.

    Args:
        folder: The folder below ``data/providers`` with the attributes of their models.
    """

    @hook
    def survey_model_attributes() -> list[ModelAttributesSpecification]:
        return [ModelAttributesSpecification(ANY_NAME, access_data("providers", folder))]

    return survey_model_attributes


def _access(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
