"""The ensemble ``io``: files in the directories that the user grants, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.plugins.specification.runs import EnsembleContext, EnsembleSpecification

if TYPE_CHECKING:
    from vibe_llms.invocables.shipped.io.ensemble import IoEnsemble


@hook
def survey_ensembles() -> list[EnsembleSpecification]:
    """Names the ensemble; it can be configured several times, with other directories."""
    summary = "read, list and search files; write and edit them after an approval"
    return [EnsembleSpecification(ANY_NAME, summary, produce_ensemble)]


def produce_ensemble(context: EnsembleContext) -> IoEnsemble:
    """Makes the ensemble.

    Raises:
        ConfigurationError: Its settings do not hold.
    """
    from vibe_llms.invocables.shipped.io.ensemble import IoEnsemble
    from vibe_llms.invocables.shipped.io.settings import IoSettings
    from vibe_llms.tables.reading import read_table

    settings = read_table(
        IoSettings,
        context.settings,
        f"ensembles.{context.name}",
        name=context.name,
        working_directory=context.working_directory,
    )
    return IoEnsemble(settings)
