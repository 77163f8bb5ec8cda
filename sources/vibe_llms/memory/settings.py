"""User settings of the ensemble ``memory``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

from vibe_llms.conversations.notes.interfaces import NOTE_BYTES
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import Seconds
from vibe_llms.tables.kinds import Kind, bound
from vibe_llms.tables.reading import read_table, require

if TYPE_CHECKING:
    from vibe_llms.configuration.classes import Configuration

_PROJECT: Final = re.compile(r"[\w][\w.-]{0,99}")


def _is_project(value: object) -> bool:
    return isinstance(value, str) and (not value or _PROJECT.fullmatch(value) is not None)


_PROJECT_NAME: Final = Kind("a name of letters, digits, '.', '_' and '-'", _is_project, str)
_SIZE: Final = bound(f"a whole number to {NOTE_BYTES // 2}", 1, NOTE_BYTES // 2)


@frozen(kw_only=True)
class MemorySettings:
    """Settings of the ensemble.

    Attributes:
        project: Name of the project; by default it is made from the project's folder.
        vendor_tool: Offer the memory tool that Anthropic defines, rather than our own ones.
        meaning: Search by meaning, too, if an embedder is available.
        limit: Maximum number of passages that one search returns.
        note_bytes: Maximum size of a note.
        notes: Maximum number of a user's notes.
        seconds: How long one search may embed new texts before it answers with what it has.

    Raises:
        ConfigurationError: With all mistakes in the settings.
    """

    name: str = "memory"
    project: Annotated[str, _PROJECT_NAME] = ""
    vendor_tool: bool = False
    meaning: bool = True
    limit: Annotated[int, bound("a whole number from 1 to 50", 1, 50)] = 8
    note_bytes: Annotated[int, _SIZE] = 100_000
    notes: Annotated[int, bound("a whole number from 1 to 100000", 1, 100_000)] = 1_000
    seconds: Seconds = 60.0

    def __attrs_post_init__(self) -> None:
        require(self, f"ensembles.{self.name}")


def read_settings(configuration: Configuration) -> MemorySettings:
    """Read the settings of ``[ensembles.memory]``.

    Raises:
        ConfigurationError: They are invalid.
    """
    entry = configuration.ensembles.get("memory")
    table = {} if entry is None else entry.settings
    return read_table(MemorySettings, table, "ensembles.memory", name="memory")
