"""The ensemble ``fetch``: web pages as text, from the public network only."""

from __future__ import annotations

from vibe_llms.invocables.shipped.offering import offer
from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.runs import EnsembleSpecification


@hook
def survey_ensembles() -> list[EnsembleSpecification]:
    """Return the ensemble; it can be configured several times, with other limits."""
    return [offer("fetch", "fetch a public web page as text")]
