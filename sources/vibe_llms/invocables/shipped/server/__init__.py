"""Ensembles of one server tool, such as ``web_search``: the vendor executes its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.plugins.specification.runs import EnsembleContext, EnsembleSpecification

if TYPE_CHECKING:
    from vibe_llms.invocables.ensembles import Ensemble


@hook
def survey_ensembles() -> list[EnsembleSpecification]:
    """Return the ensemble; its name, or the setting ``tool``, is the name of the server tool."""
    return [EnsembleSpecification(ANY_NAME, "a tool of the vendor", _produce)]


def _produce(context: EnsembleContext) -> Ensemble:
    # Imported on first use, so that registration does not slow down the start.
    from vibe_llms.invocables.shipped.server.ensemble import produce_ensemble

    return produce_ensemble(context.name, context.settings)
