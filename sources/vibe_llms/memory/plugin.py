"""Registration of the ensemble ``memory``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.plugins.specification.runs import EnsembleContext, EnsembleSpecification

if TYPE_CHECKING:
    from vibe_llms.memory.ensemble import MemoryEnsemble


@hook
def survey_ensembles() -> list[EnsembleSpecification]:
    """Return the ensemble; it can be configured several times, with other settings."""
    summary = "notes that outlive conversations"
    return [EnsembleSpecification(ANY_NAME, summary, _produce)]


def _produce(context: EnsembleContext) -> MemoryEnsemble:
    from vibe_llms.application import access_application
    from vibe_llms.memory.ensemble import MemoryEnsemble
    from vibe_llms.memory.settings import MemorySettings
    from vibe_llms.tables.reading import read_table

    place = f"ensembles.{context.name}"
    settings = read_table(MemorySettings, context.settings, place, name=context.name)
    return MemoryEnsemble(settings, access_application(context.application))
