"""Name and arguments of this program, so that printed commands can be copied."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.interfaces.cli.command_table import COMMANDS

if TYPE_CHECKING:
    from vibe_llms.configuration.classes import Configuration

_NAME = "vibe"
_arguments: list[str] = []
_user_names: dict[str, str] = {}


def name_program() -> str:
    """Return the name to type in order to call this program in the same place again.

    That is the plain name if the shell finds this very program by it; else the path, or
    ``python -m``, as typed.
    """
    given = sys.orig_argv
    if "-m" in given[1:] and not _is_script(sys.argv[0]):
        module = given[given.index("-m", 1) + 1 : given.index("-m", 1) + 2]
        if module and module[0].partition(".")[0] == "vibe_llms":
            return f"{_quote(given[0])} -m {module[0]}"
    if not _is_script(sys.argv[0]) or _is_found(sys.argv[0]):
        return _NAME
    return _quote(sys.argv[0])


def compose_command(*arguments: str) -> str:
    """Compose a command that can be copied, such as ``.venv/bin/vibe list``."""
    return " ".join((name_program(), *map(_quote, arguments)))


def remember_arguments(arguments: Sequence[str]) -> None:
    """Remember this program's arguments, for :func:`compose_again`."""
    _arguments[:] = arguments


def remember_names(configuration: Configuration) -> None:
    """Remember the names of providers, for :func:`respell`: as typed, or the short name."""
    given = (*_arguments, configuration.model)
    words = {part for word in given for part in re.split("[:=]", word)}
    _user_names.clear()
    for word in sorted(configuration.aliases, key=words.__contains__):  # typed names first
        meant = configuration.follow_aliases(word)
        is_used = word in words or meant.startswith(f"{word}_")  # openai, of openai_responses
        is_other = word not in configuration.providers and meant not in words
        if is_used and is_other and meant in configuration.providers:
            _user_names[meant] = word


def is_option_value(option: str, value: str) -> bool:
    """Return whether an option's optional value is its own, and not a following argument."""
    return _arguments[-2:] == [option, value] or f"{option}={value}" in _arguments


def compose_again(*more: str) -> str:
    """Return the given command with more options, in a form that can be copied."""
    # Only arguments follow --.
    end = _arguments.index("--") if "--" in _arguments else len(_arguments)
    return compose_command(*_arguments[:end], *more, *_arguments[end:])


def respell(text: str) -> str:
    """Rewrite the program's commands in a text, such as ``vibe list``, so that they can be copied.

    Providers get the names that the user uses, except in lists of all names.
    """
    text, known, names = text.partition(" Known: ")
    for name, word in _user_names.items():
        before = r"(?:(?<![\w./\\-])|(?<=\[providers\.))"  # but not within a path or a module
        text = re.sub(rf"{before}{re.escape(name)}(?![\w/-])", word, text)
    text += known + names
    if f"{_NAME} " not in text:
        return text
    program = name_program()
    if program == _NAME:
        return text
    words = "|".join((*(name for each in COMMANDS.values() for name in each), "--help"))
    # A function, because backslashes in a path are special in a replacement.
    return re.sub(rf"(?<![\w./\\-]){_NAME}(?= (?:{words})(?![\w-]))", lambda _: program, text)


def _is_script(path: str) -> bool:
    return Path(path).stem == _NAME


def _is_found(path: str) -> bool:
    """Return whether the first program of that name on the search path is this one."""
    for folder in os.get_exec_path():
        found = Path(folder) / Path(path).name
        if found.is_file() and os.access(found, os.X_OK):
            try:
                return found.samefile(path)
            except OSError:
                return False
    return False


def _quote(word: str) -> str:
    import shlex

    return shlex.quote(word)
