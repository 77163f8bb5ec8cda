"""Registration of the ensemble ``skills``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.plugins.specification.runs import EnsembleContext, EnsembleSpecification

if TYPE_CHECKING:
    from vibe_llms.instruments.skills.ensemble import SkillsEnsemble


@hook
def survey_ensembles() -> list[EnsembleSpecification]:
    """Return the ensemble."""
    summary = "load skills: instructions with scripts and references"
    return [EnsembleSpecification(ANY_NAME, summary, _produce)]


def _produce(context: EnsembleContext) -> SkillsEnsemble:
    from vibe_llms.application import access_application
    from vibe_llms.instruments.skills.ensemble import SkillsEnsemble
    from vibe_llms.instruments.skills.settings import SkillsSettings
    from vibe_llms.tables.reading import read_table

    place = f"ensembles.{context.name}"
    settings = read_table(SkillsSettings, context.settings, place, name=context.name)
    return SkillsEnsemble(settings, access_application(context.application))
