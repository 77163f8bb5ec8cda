"""The provider ``scripted``: answers from a script, for tests, demonstrations and documentation.

A script is a TOML file (see :mod:`vibe_llms.providers.scripted.scripts`). The name of a model is
a script that ships (``scripted:echo``) or the path of one (``scripted:./mine.toml``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification import ProviderContext, ProviderSpecification

if TYPE_CHECKING:
    from vibe_llms.providers.interfaces import Provider


@hook
def survey_providers() -> list[ProviderSpecification]:
    """Names the one provider that there is here."""
    return [ProviderSpecification("scripted", "answers from a script", produce_provider)]


def produce_provider(context: ProviderContext) -> Provider:
    """Makes the provider."""
    from vibe_llms.providers.scripted.client import ScriptedProvider

    return ScriptedProvider(context)
