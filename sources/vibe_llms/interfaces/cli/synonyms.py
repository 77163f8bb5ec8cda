"""Suggestions for unknown commands: synonyms from other programs, and similar names."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

_SYNONYMS_BY_COMMAND = {
    "add": "install new set store",
    "blame": "annotate author",
    "call": "exec execute invoke run try",
    "cherry-pick": "graft pick",
    "chat": "converse new repl run shell start talk",
    "completion": "completions",
    "config": "configuration configure options preferences settings setup",
    "continue": "resume",
    "credentials": "auth login token",
    "delete": "del erase remove rm",
    "diff": "compare",
    "export": "dump save",
    "fork": "branch copy cp",
    "--help": "help man usage",
    "import": "load restore",
    "keys": "key users",
    "list": "conversations dir history ls",
    "log": "graph logs tree turns",
    "merge": "combine join",
    "models": "model",
    "new": "clear create init make reset",
    "path": "file location where",
    "plugins": "extensions plugin",
    "providers": "aliases provider services vendors",
    "pull": "download fetch install",
    "quit": "bye exit logout q",
    "remove": "del delete forget rm uninstall unset",
    "rename": "mv name title",
    "revoke": "delete disable remove rm",
    "search": "find grep",
    "set": "add change edit put save",
    "show": "cat describe explain get info inspect list ls open print read view",
    "sync": "mirror pull push synchronize",
    "tools": "ensembles functions mcp tool",
    "unset": "clear del delete remove reset rm",
    "--version": "about release version",
    "usage": "costs spending spent",
    "verify": "check doctor fsck test validate",
}
_ALL_SYNONYMS = {word for words in _SYNONYMS_BY_COMMAND.values() for word in words.split()}
SYNONYMS = MappingProxyType(
    {
        synonym: tuple(
            command for command, words in _SYNONYMS_BY_COMMAND.items() if synonym in words.split()
        )
        for synonym in sorted(_ALL_SYNONYMS)
    }
)
"""Maps synonyms to possible commands of this program; the first available one is suggested."""


def find_command(word: str, known: Iterable[str]) -> str | None:
    """Return the command that a user probably meant: by a synonym, or else by similar spelling.

    Args:
        word: The unknown command.
        known: The available commands; with a slash if the word has one.
    """
    from vibe_llms.foundation.suggestions import find_nearest

    known = list(known)
    slash = "/" if word.startswith("/") else ""
    for command in SYNONYMS.get(word.removeprefix("/").lower(), ()):
        if f"{slash}{command}" in known:
            return f"{slash}{command}"
    return find_nearest(word, known)
