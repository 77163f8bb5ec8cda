"""Requirements of configured providers, as they report them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vibe_llms.configuration.locating import locating
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.plugins.manager import PluginManager

if TYPE_CHECKING:
    from vibe_llms.providers.requirements import Requirement


@frozen
class MissingRequirements:
    """Missing requirements of a provider.

    Attributes:
        needs: As it reports them; a plugin's provider may report none.
        error: Why it cannot be made, for example because its settings are invalid.
    """

    requirements: tuple[Requirement, ...] = ()
    error: ConverseError | None = None


def survey_missing(
    plugins: PluginManager, providers: Iterable[str]
) -> dict[str, MissingRequirements]:
    """Ask providers for their missing requirements; load them, but no model and no vendor's
    package.

    Installs nothing: the state of an unusable plugin reports it.
    """
    usable = {each.entry.name: each.is_usable for each in plugins.survey() if each.is_provider}
    return {
        name: _ask(plugins, name) if usable.get(name) else MissingRequirements()
        for name in providers
    }


def refuse_missing(plugins: PluginManager, provider: str) -> None:
    """Refuse a provider that can be loaded, but cannot be asked yet.

    Raises:
        ConverseError: The missing requirement, with its fix.
    """
    from vibe_llms.providers.requirements import refuse_requirements

    missing = _ask(plugins, provider)
    if missing.error is not None:
        raise missing.error
    refuse_requirements(provider, missing.requirements)


def _ask(plugins: PluginManager, name: str) -> MissingRequirements:
    try:
        provider = plugins.load_provider(name)
        survey = getattr(provider, "survey_requirements", None)
        with locating(plugins.configuration):
            if survey is None:
                provider.produce_client()  # at least checks the settings of a plugin's provider
            return MissingRequirements(tuple(survey()) if survey is not None else ())
    except ConverseError as error:
        return MissingRequirements(error=error)
