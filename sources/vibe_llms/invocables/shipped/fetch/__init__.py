"""The ensemble ``fetch``: pages of the web as text, and nothing of the network around us."""

from __future__ import annotations

from vibe_llms.invocables.shipped.offering import offer
from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.runs import EnsembleSpecification


@hook
def survey_ensembles() -> list[EnsembleSpecification]:
    """Names the ensemble; it can be configured several times, with other bounds."""
    return [offer("fetch", "fetch a public web page as text")]
