"""The ensemble ``shell``: a command at a time, each after an approval, none left behind."""

from __future__ import annotations

from vibe_llms.invocables.shipped.offering import offer
from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.runs import EnsembleSpecification


@hook
def survey_ensembles() -> list[EnsembleSpecification]:
    """Names the ensemble; it can be configured several times, with other bounds."""
    return [offer("shell", "run a shell command after approval")]
