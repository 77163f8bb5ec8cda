"""Hiding of the keys in our environment from the programs that we start.

The caller chooses the environment of a program. But on Linux every process of the same user can
read the initial environment of another one, in ``/proc/<pid>/environ``: a command of a model could
read there, with ``cat``, the keys that it was not given. So, before the first program is started,
keys are moved: the variables stay the same for this process and its libraries, and the memory that
the kernel shows is overwritten.

This does not hide keys from processes that may trace us and read our memory (root, and with
``kernel.yama.ptrace_scope`` at 0 every process of the same user), nor the environment of the user's
other processes, such as the shell. Other systems do not show environments to others, or show the
initial one; there this does nothing.
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
"""Field of ``/proc/<pid>/stat``, counted from 1: the address at which the environment begins."""

_named: set[str] = set()
_has_begun = False


def conceal_keys() -> None:
    """Move the keys in our environment to where no other process can read them.

    Only once: others can read only the initial environment, to which nothing is added.
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
        # After the last bracket: the program's name before it may have blanks and brackets.
        at = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[_START_FIELD - 3])
    except (OSError, ValueError, IndexError):  # then others cannot read it, either
        return
    if not at:
        return
    for entry in block.split(b"\0"):
        name, equals, text = entry.partition(b"=")
        # A value of stars only was moved before.
        if text.strip(b"*") and _is_key(os.fsdecode(name), text):
            _move(os.fsdecode(name), at + len(name) + len(equals), len(text))
        at += len(entry) + 1


def remember_key(variable: str) -> None:
    """Register a variable that has a key, whatever its name."""
    _named.add(variable)
    if _has_begun:
        _conceal()


def strip_keys(environment: Mapping[str, str], kept: Collection[str] = ()) -> dict[str, str]:
    """Return an environment without keys, for a program that needs none.

    Args:
        kept: Names of variables to keep nevertheless.
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
    """Move the value of a variable, and overwrite its original memory."""
    import ctypes

    if name in os.environ:
        os.environ[name] = os.environ[name]  # the system copies the value and drops the original
    ctypes.memset(address, ord("*"), length)
