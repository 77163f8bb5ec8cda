"""The ensemble ``shell``: a command at a time, each after an approval, none left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.plugins.specification.runs import EnsembleContext, EnsembleSpecification

if TYPE_CHECKING:
    from vibe_llms.invocables.shipped.shell.ensemble import ShellEnsemble


@hook
def survey_ensembles() -> list[EnsembleSpecification]:
    """Names the ensemble; it can be configured several times, with other bounds."""
    summary = "run a command of the shell after an approval"
    return [EnsembleSpecification(ANY_NAME, summary, produce_ensemble)]


def produce_ensemble(context: EnsembleContext) -> ShellEnsemble:
    """Makes the ensemble.

    Raises:
        ConfigurationError: Its settings do not hold.
    """
    from vibe_llms.invocables.shipped.shell.ensemble import ShellEnsemble
    from vibe_llms.invocables.shipped.shell.settings import ShellSettings
    from vibe_llms.tables.reading import read_table

    settings = read_table(
        ShellSettings,
        context.settings,
        f"ensembles.{context.name}",
        name=context.name,
        working_directory=context.working_directory,
    )
    return ShellEnsemble(settings)
