"""Plugin hooks for a package with one provider, which is imported on first use."""

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
        provider: Class of the provider, as ``module:Class``.
        vendor: The vendor's class, likewise; the second argument of the provider, after the
            context.
        name: The provider's name; by default the one in the configuration.
    """

    def produce_provider(context: ProviderContext) -> Provider:
        arguments = [_access(vendor)] if vendor else []
        instance: Provider = _access(provider)(context, *arguments)
        return instance

    @hook
    def survey_providers() -> list[ProviderSpecification]:
        return [ProviderSpecification(name, summary, produce_provider)]

    return survey_providers, produce_provider


def offer_attributes(folder: str) -> Callable[[], list[ModelAttributesSpecification]]:
    """Make the hook ``survey_model_attributes``, for providers whose names the user chooses.

    Args:
        folder: The folder below ``data/providers`` with the attributes of their models.
    """

    @hook
    def survey_model_attributes() -> list[ModelAttributesSpecification]:
        return [ModelAttributesSpecification(ANY_NAME, access_data("providers", folder))]

    return survey_model_attributes


def _access(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
