"""Settings of the kinds that ship."""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

from vibe_llms.plugins.specification.guards import GuardContext
from vibe_llms.tables.kinds import Choice
from vibe_llms.tables.reading import TableReader, locate_by_name

_T = TypeVar("_T")

ACTIONS: Final = ("mark", "refuse")
"""What to do about a finding: replace it, or refuse the whole."""

Action = Annotated[str, Choice(ACTIONS)]


def read_guard_settings(cls: type[_T], context: GuardContext) -> _T:
    """Return the settings of a guard. Raises ConfigurationError with all mistakes."""
    reader = TableReader(locate_by_name(), base=context.working_directory)
    settings = reader.read(cls, context.settings, ("guards", context.name))
    reader.finish()
    assert settings is not None
    return settings
