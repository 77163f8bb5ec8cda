"""The ensemble ``fetch``: pages of the web as text, and nothing of the network around us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.plugins.specification.runs import EnsembleContext, EnsembleSpecification

if TYPE_CHECKING:
    from vibe_llms.invocables.shipped.fetch.ensemble import FetchEnsemble


@hook
def survey_ensembles() -> list[EnsembleSpecification]:
    """Names the ensemble; it can be configured several times, with other bounds."""
    summary = "fetch a public page of the web as text"
    return [EnsembleSpecification(ANY_NAME, summary, produce_ensemble)]


def produce_ensemble(context: EnsembleContext) -> FetchEnsemble:
    """Makes the ensemble.

    Raises:
        ConfigurationError: Its settings do not hold.
    """
    from vibe_llms.invocables.shipped.fetch.ensemble import FetchEnsemble
    from vibe_llms.invocables.shipped.fetch.settings import FetchSettings
    from vibe_llms.tables.reading import read_table

    place = f"ensembles.{context.name}"
    return FetchEnsemble(read_table(FetchSettings, context.settings, place, name=context.name))
