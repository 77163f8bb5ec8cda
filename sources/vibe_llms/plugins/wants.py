"""What each configured provider lacks before it can be asked, as it says itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vibe_llms.configuration.locating import locating
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.plugins.manager import PluginManager

if TYPE_CHECKING:
    from vibe_llms.providers.needs import Need


@frozen
class Wants:
    """What a provider lacks.

    Attributes:
        needs: As it says itself; a stranger's may say nothing.
        error: Why it cannot be made, where it cannot: its settings do not hold, say.
    """

    needs: tuple[Need, ...] = ()
    error: ConverseError | None = None


def survey_wants(plugins: PluginManager, providers: Iterable[str]) -> dict[str, Wants]:
    """Asks providers what they lack; loads them, but no model and no vendor's package.

    Installs nothing: what is not usable as it stands says so by its state.
    """
    usable = {each.entry.name: each.is_usable for each in plugins.survey() if each.is_provider}
    return {name: _ask(plugins, name) if usable.get(name) else Wants() for name in providers}


def refuse_wants(plugins: PluginManager, provider: str) -> None:
    """Refuses to go on with a provider that can be loaded, but not be asked as things are.

    Raises:
        ConverseError: What is missing, with how it is had.
    """
    from vibe_llms.providers.needs import refuse_for_want

    wants = _ask(plugins, provider)
    if wants.error is not None:
        raise wants.error
    refuse_for_want(provider, wants.needs)


def _ask(plugins: PluginManager, name: str) -> Wants:
    try:
        provider = plugins.load_provider(name)
        survey = getattr(provider, "survey_needs", None)
        with locating(plugins.configuration):
            if survey is None:
                provider.produce_client()  # a stranger's says at least whether its settings hold
            return Wants(tuple(survey()) if survey is not None else ())
    except ConverseError as error:
        return Wants(error=error)
