"""Registration of the ensemble ``recall``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.plugins.specification.runs import EnsembleContext, EnsembleSpecification

if TYPE_CHECKING:
    from vibe_llms.retrieval.recalling import RecallEnsemble


@hook
def survey_ensembles() -> list[EnsembleSpecification]:
    """Return the ensemble; it can be configured several times, with other folders."""
    summary = "search past conversations and documents by meaning"
    return [EnsembleSpecification(ANY_NAME, summary, _produce)]


def _produce(context: EnsembleContext) -> RecallEnsemble:
    from vibe_llms.application import access_application
    from vibe_llms.retrieval.recalling import RecallEnsemble, RecallSettings
    from vibe_llms.tables.reading import read_table

    settings = read_table(
        RecallSettings,
        context.settings,
        f"ensembles.{context.name}",
        name=context.name,
        working_directory=context.working_directory,
    )
    return RecallEnsemble(settings, access_application(context.application))
