"""What a user may set for the ensemble of commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from vibe_llms.invocables.shipped.grants import Grant, produce_grant
from vibe_llms.invocables.shipped.settings import (
    EnsembleSettings,
    check_count,
    check_seconds,
    check_texts,
    setting,
)
from vibe_llms.invocables.shipped.shell.environment import is_variable_name


def _check_directories(value: Any) -> str | None:
    return check_texts(value) or (None if value else "a list that names a directory at least")


def _check_variables(value: Any) -> str | None:
    is_list = isinstance(value, list | tuple) and all(map(is_variable_name, value))
    return None if is_list else "a list of names of variables"


@attrs.frozen(kw_only=True)
class ShellSettings(EnsembleSettings):
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
    directories: tuple[str, ...] = setting((".",), _check_directories)
    seconds: float = setting(120.0, check_seconds)
    output_bytes: int = setting(10_000_000, check_count)
    variables: tuple[str, ...] = setting((), _check_variables)
    working_directory: Path = attrs.field(factory=Path.cwd)

    def produce_grants(self) -> tuple[Grant, ...]:
        """Returns the directories."""
        return tuple(produce_grant(text, True, self.working_directory) for text in self.directories)
