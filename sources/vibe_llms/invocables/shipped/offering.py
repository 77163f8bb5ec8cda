"""Registration of the shipped ensembles, which are imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import attrs

from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.plugins.specification.runs import EnsembleContext, EnsembleSpecification
from vibe_llms.tables.reading import read_table

if TYPE_CHECKING:
    from vibe_llms.invocables.ensembles import Ensemble


def offer(kind: str, summary: str) -> EnsembleSpecification:
    """Describe the ensemble of a package next to this module, for its registration.

    The factory raises a ConfigurationError for invalid settings.
    """

    def produce(context: EnsembleContext) -> Ensemble:
        # Imported on first use, so that registration does not slow down the start.
        module = importlib.import_module(f"{__package__}.{kind}.ensemble")
        ensemble_class = getattr(module, f"{kind.title()}Ensemble")
        settings_class = ensemble_class.settings_class
        fields = {"name", "working_directory"} & attrs.fields_dict(settings_class).keys()
        context_fields = {field: getattr(context, field) for field in fields}
        place = f"ensembles.{context.name}"
        settings = read_table(settings_class, context.settings, place, **context_fields)
        ensemble: Ensemble = ensemble_class(settings)
        return ensemble

    return EnsembleSpecification(ANY_NAME, summary, produce)
