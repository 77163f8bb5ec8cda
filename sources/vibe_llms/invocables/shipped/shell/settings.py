"""What a user may set for the ensemble of commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.shipped.grants import DirectoryGrant, produce_grant
from vibe_llms.tables.annotations import Count, Seconds
from vibe_llms.tables.kinds import FILLED, Kind, is_list_of
from vibe_llms.tables.reading import require

PASSED_ON: Final = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"}
    | {"LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"}
    | {"VIRTUAL_ENV", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"}
)
"""The variables that every command gets, where we have them."""

SET: Final[Mapping[str, str]] = {
    "GIT_TERMINAL_PROMPT": "0",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "TERM": "dumb",
}
"""What says that nobody sits at a terminal."""

_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def is_variable_name(text: object) -> bool:
    """Tells whether a variable can be called so."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def produce_environment(ours: Mapping[str, str], further: Iterable[str]) -> dict[str, str]:
    """Returns the environment of a command.

    Args:
        ours: Our own.
        further: Names of variables that the user lets pass besides.
    """
    names = PASSED_ON.union(further)
    # Ours come last: a user may let pass what is set here, such as TERM.
    return {**SET, **{name: text for name, text in ours.items() if name in names}}


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

    def produce_grants(self) -> tuple[DirectoryGrant, ...]:
        """Returns the directories."""
        return tuple(produce_grant(text, True, self.working_directory) for text in self.directories)
