"""Missing requirements of configured providers, such as a key or a package, as they report them."""

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
        requirements: The requirements, as the provider reports them; a plugin's provider may not
            report any.
        error: Why the provider cannot be made, for example invalid settings; ``None`` if it can.
    """

    requirements: tuple[Requirement, ...] = ()
    error: ConverseError | None = None


def survey_missing(
    plugins: PluginManager, providers: Iterable[str]
) -> dict[str, MissingRequirements]:
    """Return the missing requirements of each provider.

    Loads the providers, but no model and no vendor's package. Installs nothing: for a provider
    whose plugin is unusable, nothing is reported here, as the state of its plugin tells the reason.
    """
    usable = {each.entry.name: each.is_usable for each in plugins.survey() if each.is_provider}
    return {
        name: _find_missing(plugins, name) if usable.get(name) else MissingRequirements()
        for name in providers
    }


def select_ready(plugins: PluginManager, providers: Iterable[str]) -> list[str]:
    """Return the providers that are completely configured: nothing prevents a request.

    Loads the providers, but no model and no vendor's package.
    """
    return [
        name
        for name, missing in survey_missing(plugins, providers).items()
        if missing.error is None and not any(each.prevents for each in missing.requirements)
    ]


def refuse_missing(plugins: PluginManager, provider: str) -> None:
    """Raise an error if a provider lacks something that requests need, such as a key.

    Raises:
        ConverseError: The missing requirement, with its fix.
    """
    missing = _find_missing(plugins, provider)
    if missing.error is not None:
        raise missing.error
    if missing.requirements:
        from vibe_llms.providers.requirements import refuse_requirements

        refuse_requirements(provider, missing.requirements)


def _find_missing(plugins: PluginManager, name: str) -> MissingRequirements:
    try:
        provider = plugins.load_provider(name)
        survey = getattr(provider, "survey_requirements", None)
        with locating(plugins.configuration):
            if survey is None:
                provider.produce_client()  # which at least checks the provider's settings
            return MissingRequirements(tuple(survey()) if survey is not None else ())
    except ConverseError as error:
        return MissingRequirements(error=error)
