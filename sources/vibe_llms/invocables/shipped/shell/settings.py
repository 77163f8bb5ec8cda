"""What a user may set for the ensemble of commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import attrs

from vibe_llms.invocables.shipped.grants import Grant, produce_grant
from vibe_llms.invocables.shipped.shell.environment import is_variable_name
from vibe_llms.tables.annotations import Count, Seconds
from vibe_llms.tables.kinds import FILLED, Kind, is_list_of
from vibe_llms.tables.reading import require
from vibe_llms.values import frozen

_VARIABLES: Final = Kind("a list of names of variables", is_list_of(is_variable_name), tuple)


@frozen(kw_only=True)
class ShellSettings:
    """How commands are run.

    Attributes:
        directories: Where commands may begin. What they do from there is not confined.
        seconds: How long a command may take.
        output_bytes: How much a command may write before it is ended.
        variables: Of our environment, which are passed on besides the usual harmless ones.
        working_directory: Where relative paths begin.

    Raises:
        ConfigurationError: With all the mistakes in them.
    """

    name: str = "shell"
    directories: Annotated[tuple[str, ...], FILLED] = (".",)
    seconds: Seconds = 120.0
    output_bytes: Count = 10_000_000
    variables: Annotated[tuple[str, ...], _VARIABLES] = ()
    working_directory: Path = attrs.field(factory=Path.cwd)

    def __attrs_post_init__(self) -> None:
        require(self, f"ensembles.{self.name}")

    def produce_grants(self) -> tuple[Grant, ...]:
        """Returns the directories."""
        return tuple(produce_grant(text, True, self.working_directory) for text in self.directories)
