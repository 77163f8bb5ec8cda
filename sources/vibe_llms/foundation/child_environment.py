"""Hide the keys in our environment from the programs that we start.

The environment that we pass to a program has no keys. But on Linux every process of the same user
can read the initial environment of another one, in ``/proc/<pid>/environ``: a command that a model
runs could read our keys there, with ``cat``. So, before the first program is started, keys are
moved: the variables stay the same for this process and its libraries, and the memory that the
kernel shows is overwritten.

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

_key_variables: set[str] = set()
"""Names of variables that hold keys, in addition to those with a name like ``API_KEY``."""

_is_concealed = False


def conceal_keys() -> None:
    """Move the keys in our environment to where no other process can read them.

    Later calls do nothing: other processes can read only the initial environment, to which nothing
    is added.
    """
    global _is_concealed
    if not _is_concealed:
        _is_concealed = True
        _conceal()


def _conceal() -> None:
    if sys.platform != "linux":
        return
    try:
        environment = Path("/proc/self/environ").read_bytes()
        # The second field, the program's name in brackets, may have blanks and brackets itself.
        third_and_later = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        address = int(third_and_later[_START_FIELD - 3])
    except (OSError, ValueError, IndexError):  # then others cannot read it, either
        return
    if not address:
        return
    for entry in environment.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        # A value of stars only was moved before.
        if value.strip(b"*") and _is_key(os.fsdecode(name), value):
            _overwrite(os.fsdecode(name), address + len(name) + len(equals), len(value))
        address += len(entry) + 1


def remember_key(variable: str) -> None:
    """Register a variable that holds a key although its name does not tell."""
    _key_variables.add(variable)
    if _is_concealed:
        _conceal()


def strip_keys(environment: Mapping[str, str], kept: Collection[str] = ()) -> dict[str, str]:
    """Return an environment without keys, for a program that needs none.

    Args:
        kept: Names of variables to keep nevertheless.
    """
    return {
        name: value
        for name, value in environment.items()
        if name in kept or not (_is_key_name(name) or KEY_SHAPES.search(os.fsencode(value)))
    }


def _is_key(name: str, value: bytes) -> bool:
    return bool(_is_key_name(name) or KEY_SHAPES.search(value) or _PASSWORD.search(value))


def _is_key_name(name: str) -> bool:
    return name in _key_variables or is_secret_name(name)


def _overwrite(name: str, address: int, length: int) -> None:
    """Copy the value of a variable to new memory, and overwrite its original memory."""
    import ctypes

    if name in os.environ:
        os.environ[name] = os.environ[name]  # the system copies the value, and uses the copy
    ctypes.memset(address, ord("*"), length)
