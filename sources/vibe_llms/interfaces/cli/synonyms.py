"""Synonyms of this program's commands, from other programs."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

_OURS = {
    "add": "install new set store",
    "call": "exec execute invoke run try",
    "chat": "converse new repl run shell start talk",
    "completion": "completions",
    "config": "configuration configure options preferences settings setup",
    "continue": "resume",
    "credentials": "auth login token",
    "delete": "del erase remove rm",
    "export": "dump save",
    "fork": "branch copy cp",
    "--help": "help man usage",
    "import": "load restore",
    "keys": "key users",
    "list": "conversations dir history logs ls",
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
    "tools": "ensembles functions mcp tool",
    "unset": "clear del delete remove reset rm",
    "--version": "about release version",
    "usage": "costs spending spent",
    "verify": "check doctor fsck test validate",
}
SYNONYMS = MappingProxyType(
    {
        word: tuple(ours for ours, others in _OURS.items() if word in others.split())
        for word in sorted({word for others in _OURS.values() for word in others.split()})
    }
)
"""Maps foreign words to possible commands of this program; the first available one is chosen."""


def find_command(word: str, known: Iterable[str]) -> str | None:
    """Return the most likely intended command, by synonym or else by spelling.

    Args:
        known: The available commands; with a slash if the word has one.
    """
    from vibe_llms.foundation.suggestions import find_nearest

    known = list(known)
    slash = "/" if word.startswith("/") else ""
    for ours in SYNONYMS.get(word.removeprefix("/").lower(), ()):
        if f"{slash}{ours}" in known:
            return f"{slash}{ours}"
    return find_nearest(word, known)
