"""User settings of the ensemble ``shell``."""

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

INHERITED: Final = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"}
    | {"LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"}
    | {"VIRTUAL_ENV", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"}
)
"""Variables that every command inherits, if they are set."""

DEFAULTS: Final[Mapping[str, str]] = {
    "GIT_TERMINAL_PROMPT": "0",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "TERM": "dumb",
}
"""Variables that tell programs that no user is at a terminal."""

_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def is_variable_name(text: object) -> bool:
    """Return whether a name is valid for a variable."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def produce_environment(environment: Mapping[str, str], further: Iterable[str]) -> dict[str, str]:
    """Return the environment of a command.

    Args:
        environment: The environment of this process.
        further: Names of further inherited variables.
    """
    names = INHERITED.union(further)
    # Inherited variables take precedence, because a user may pass TERM, which has a default.
    inherited = {name: text for name, text in environment.items() if name in names}
    return {**DEFAULTS, **inherited}


_VARIABLES: Final = Kind("a list of names of variables", is_list_of(is_variable_name), tuple)


@frozen(kw_only=True)
class ShellSettings:
    """Settings for running commands.

    Attributes:
        directories: Permitted working directories. A command that runs there is not confined to
            them.
        seconds: Timeout of a command.
        output_bytes: Maximum output of a command, which is ended beyond it.
        variables: Names of further environment variables that commands inherit, in addition to
            ``INHERITED``.
        working_directory: Start of relative paths.

    Raises:
        ConfigurationError: The settings are invalid; the message lists all mistakes.
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
        """Return the directories."""
        return tuple(produce_grant(text, True, self.working_directory) for text in self.directories)
