"""Name and arguments of this program, for printed commands that users can copy."""

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
"""Names that the user uses for providers, by the providers' own names."""


def name_program() -> str:
    """Return the text with which a shell calls this program again.

    That is the plain name if the shell finds this installation by it; else the path, or
    ``python -m``, as typed.
    """
    words = sys.orig_argv
    if "-m" in words[1:] and not _is_script(sys.argv[0]):
        position = words.index("-m", 1) + 1
        module = words[position] if position < len(words) else ""
        if module.partition(".")[0] == "vibe_llms":
            return f"{_quote(words[0])} -m {module}"
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
    """Remember which names the user uses for providers, for :func:`respell`.

    These are aliases that the user has typed or configured, and short names, such as ``openai`` for
    ``openai_responses``.
    """
    texts = (*_arguments, configuration.model)
    used_words = {word for text in texts for word in text.replace("=", ":").split(":")}
    providers = configuration.providers
    _user_names.clear()
    # Used aliases come last, so that they override short names.
    for alias in sorted(configuration.aliases, key=used_words.__contains__):
        provider = configuration.follow_aliases(alias)
        is_used = alias in used_words or provider.startswith(f"{alias}_")
        is_other_name = alias not in providers and provider not in used_words
        if is_used and is_other_name and provider in providers:
            _user_names[provider] = alias


def is_option_value(option: str, value: str) -> bool:
    """Return whether a text is certainly the value of an option that may have none.

    The result is uncertain if other arguments follow: the text may be the first argument.
    """
    return _arguments[-2:] == [option, value] or f"{option}={value}" in _arguments


def compose_again(*more: str) -> str:
    """Return the current command with more options, in a form that can be copied."""
    # Options must precede `--`.
    end = _arguments.index("--") if "--" in _arguments else len(_arguments)
    return compose_command(*_arguments[:end], *more, *_arguments[end:])


def respell(text: str) -> str:
    """Rewrite the program's commands in a text, such as ``vibe list``, so that they can be copied.

    Names of providers are replaced by those that the user uses, except in lists of known names.
    """
    text, separator, known_names = text.partition(" Known: ")
    for provider, user_name in _user_names.items():
        before = r"(?:(?<![\w./\\-])|(?<=\[providers\.))"  # not within a path or a module
        text = re.sub(rf"{before}{re.escape(provider)}(?![\w/-])", user_name, text)
    text += separator + known_names
    if f"{_NAME} " not in text:
        return text
    program = name_program()
    if program == _NAME:
        return text
    command_names = (name for commands in COMMANDS.values() for name in commands)
    words = "|".join((*command_names, "--help"))
    pattern = rf"(?<![\w./\\-]){_NAME}(?= (?:{words})(?![\w-]))"
    # A function, because backslashes in a path are special in a replacement.
    return re.sub(pattern, lambda _: program, text)


def _is_script(path: str) -> bool:
    return Path(path).stem == _NAME


def _is_found(path: str) -> bool:
    """Return whether the first program of that name on the search path is this one."""
    for folder in os.get_exec_path():
        program = Path(folder) / Path(path).name
        if program.is_file() and os.access(program, os.X_OK):
            try:
                return program.samefile(path)
            except OSError:
                return False
    return False


def _quote(word: str) -> str:
    import shlex

    return shlex.quote(word)
