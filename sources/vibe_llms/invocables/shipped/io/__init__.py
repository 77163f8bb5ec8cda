"""The ensemble ``io``: files in the directories that the user grants, and nowhere else."""

from __future__ import annotations

from vibe_llms.invocables.shipped.offering import offer
from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.runs import EnsembleSpecification


@hook
def survey_ensembles() -> list[EnsembleSpecification]:
    """Return the ensemble; it can be configured several times, with other directories."""
    return [offer("io", "read, list and search files; write and edit them after approval")]
