"""Public functions to get a provider by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from vibe_llms.configuration.sources import load_configuration
from vibe_llms.plugins.manager import PluginManager

if TYPE_CHECKING:
    from vibe_llms.configuration.classes import Configuration
    from vibe_llms.plugins.specification.users import Consent
    from vibe_llms.providers.interfaces import Provider


def discover_providers(
    config: Mapping[str, Any] | Configuration, *, consent: Consent | None = None
) -> Mapping[str, Callable[[], Provider]]:
    """Return the configured providers, each imported when it is first used.

    ::

        providers = discover_providers(tomli.load(file)["providers"])
        provider = providers["anthropic"]()

    Args:
        config: The ``providers`` table of a configuration: maps names to tables with ``module`` and
            optional ``package``, ``enabled`` and settings. A whole configuration is accepted, too,
            as a tree with such a table or as a :class:`Configuration`.
        consent: Asked before a package is installed; by default the setting ``yes`` answers.

    Returns:
        Maps the name of each enabled provider to a function that returns it, the same
        one each time, and raises as :meth:`PluginManager.load_provider` does.

    Raises:
        ConfigurationError: The table, or the rest of the user's configuration, is invalid.
    """
    from vibe_llms.configuration.classes import Configuration

    if isinstance(config, Configuration):
        configuration, names = config, set(config.providers)
    else:
        tables = config.get("providers", config)
        configuration = load_configuration(command_line={"providers": tables})
        names = set(tables)
    manager = _produce_manager(configuration, consent)
    return {
        name: partial(manager.load_provider, name)
        for name, entry in configuration.providers.items()
        if name in names and entry.is_enabled
    }


def load_provider(name: str, *, consent: Consent | None = None) -> Provider:
    """Load a provider by its name in the user's configuration.

    Args:
        name: The provider's name, such as ``local``.
        consent: Asked before a package is installed; by default the setting ``yes`` answers.

    Raises:
        ConfigurationError: The configuration is invalid.
        UnknownNameError, TrustError, DependencyError, PluginError: See
            :meth:`PluginManager.load_provider`.
    """
    return _produce_manager(load_configuration(), consent).load_provider(name)


def _produce_manager(configuration: Configuration, consent: Consent | None) -> PluginManager:
    if consent is None:
        return PluginManager(configuration=configuration)
    return PluginManager(configuration=configuration, consent=consent)
