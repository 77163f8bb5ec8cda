"""Keeps the keys in our environment from the programs that we start.

What we hand on to a program is chosen by whoever starts it. But on Linux every process of the same
user may read with which variables another one began, in ``/proc/<pid>/environ``: a command that a
model wrote could read there, with ``cat``, what it was not given. So, before the first program is
started, keys are moved: the variables stay as they are for this process and its libraries, and
the place where the kernel looks for them is overwritten.

That hides nothing from those who may trace us and read our memory (root, and where the setting
``kernel.yama.ptrace_scope`` is 0 every process of the same user), nor what other processes of the
user began with, such as the shell. Other systems than Linux show no environment to others, or
show it as it was; there this does nothing.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from vibe_llms.foundation.secrets import KEY_SHAPES, is_secret_name

_PASSWORD: Final = re.compile(rb"://[^/?#\s]*@")
_START_FIELD: Final = 50
"""Of ``/proc/<pid>/stat``, counted from 1: the address at which the environment begins."""

_named: set[str] = set()
_has_begun = False


def conceal_keys() -> None:
    """Moves the keys in our environment to where no other process can read them.

    Once: what others may read is what this process began with, to which nothing is added.
    """
    global _has_begun
    if not _has_begun:
        _has_begun = True
        _conceal()


def _conceal() -> None:
    if sys.platform != "linux":
        return
    try:
        block = Path("/proc/self/environ").read_bytes()
        # Behind the last bracket: the name of the program before it may hold blanks and brackets.
        at = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[_START_FIELD - 3])
    except (OSError, ValueError, IndexError):  # there is no such place for others, either
        return
    if not at:
        return
    for entry in block.split(b"\0"):
        name, equals, text = entry.partition(b"=")
        # What is nothing but stars was moved before.
        if text.strip(b"*") and _is_key(os.fsdecode(name), text):
            _move(os.fsdecode(name), at + len(name) + len(equals), len(text))
        at += len(entry) + 1


def remember_key(variable: str) -> None:
    """Says that a variable holds a key, whatever it is called."""
    _named.add(variable)
    if _has_begun:
        _conceal()


def strip_keys(environment: Mapping[str, str], kept: Collection[str] = ()) -> dict[str, str]:
    """Returns an environment for a program of ours that needs no keys.

    Args:
        kept: Names of variables that it gets all the same.
    """
    return {
        name: text
        for name, text in environment.items()
        if name in kept or not (_is_called_key(name) or KEY_SHAPES.search(os.fsencode(text)))
    }


def _is_key(name: str, text: bytes) -> bool:
    return bool(_is_called_key(name) or KEY_SHAPES.search(text) or _PASSWORD.search(text))


def _is_called_key(name: str) -> bool:
    return name in _named or is_secret_name(name)


def _move(name: str, address: int, length: int) -> None:
    """Lets a variable have its value elsewhere, and overwrites where it was."""
    import ctypes

    if name in os.environ:
        os.environ[name] = os.environ[name]  # the system makes a copy, and forgets the original
    ctypes.memset(address, ord("*"), length)
