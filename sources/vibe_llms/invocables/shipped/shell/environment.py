"""What a command may know of our environment: little, and no secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

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
    return {**SET, **{name: text for name, text in ours.items() if name in names}}
