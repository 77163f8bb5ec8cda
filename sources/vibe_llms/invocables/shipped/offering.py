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
    """Register the ensemble of a package next to this module.

    Its factory raises a ConfigurationError for invalid settings.
    """

    def produce(context: EnsembleContext) -> Ensemble:
        # Imported on first use: registering them all costs no start-up time.
        module = importlib.import_module(f"{__package__}.{kind}.ensemble")
        ensemble = getattr(module, f"{kind.title()}Ensemble")
        form = ensemble.settings_class
        fields = {"name", "working_directory"} & attrs.fields_dict(form).keys()
        given = {field: getattr(context, field) for field in fields}
        place = f"ensembles.{context.name}"
        made: Ensemble = ensemble(read_table(form, context.settings, place, **given))
        return made

    return EnsembleSpecification(ANY_NAME, summary, produce)
