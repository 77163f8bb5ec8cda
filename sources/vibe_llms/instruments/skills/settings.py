"""User settings of the ensemble ``skills``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import Strings
from vibe_llms.tables.reading import read_table, require

if TYPE_CHECKING:
    from vibe_llms.configuration.classes import Configuration

READER: Final = "skills"
"""Name of the ensemble that reads the files of skills."""


@frozen(kw_only=True)
class SkillsSettings:
    """Settings of the ensemble; ``--skill`` searches the same folders.

    Attributes:
        folders: Further folders with skills. Relative ones start at the working directory; the user
            is asked to trust their skills, as those of a project.

    Raises:
        ConfigurationError: With all mistakes in the settings.
    """

    name: str = READER
    folders: Strings = ()

    def __attrs_post_init__(self) -> None:
        require(self, f"ensembles.{self.name}")


def read_settings(configuration: Configuration) -> SkillsSettings:
    """Read the settings of ``[ensembles.skills]``.

    Raises:
        ConfigurationError: They are invalid.
    """
    entry = configuration.ensembles.get(READER)
    table = {} if entry is None else entry.settings
    return read_table(SkillsSettings, table, f"ensembles.{READER}", name=READER)
