"""Cache of compiled generated source, stored beside the byte code of modules.

attrs generates the source of each class's methods and compiles it whenever a program starts, which
takes half of the time to define a class. The same source gives the same code, so it is compiled
once and stored in ``__pycache__``. As for byte code, nothing is written if Python is told not to
write any, and a file that cannot be read or written costs only time.
"""

from __future__ import annotations

import atexit
import marshal
import os
import sys
from contextlib import suppress
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from typing import Any, Final

import attr._make

_MAXIMUM_BYTES: Final = 4_000_000
"""Size from which a file is replaced by a new one, as most of it is from earlier versions."""

_HEAD_BYTES: Final = len(MAGIC_NUMBER) + 8
_OURS: Final = "vibe_llms."


class MethodCache:
    """Replacement for ``compile``, for the module of attrs that compiles methods and for ours.

    Args:
        path: File of the compiled methods.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._codes = self._read()
        self._new: dict[bytes, bytes] = {}

    def __call__(self, source: Any, filename: str, mode: str) -> Any:
        """Compile a source, or return its code from the cache."""
        if not isinstance(source, str) or _OURS not in filename:
            return compile(source, filename, mode)
        key = source_hash(f"{filename}\n{mode}\n{source}".encode())
        if (known := self._codes.get(key)) is not None:
            return marshal.loads(known)
        code = compile(source, filename, mode)
        if not (self._new or sys.dont_write_bytecode):
            atexit.register(self.write)
        self._new[key] = marshal.dumps(code)
        return code

    def _read(self) -> dict[bytes, bytes]:
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123  # pathlib is not imported yet
                head, data = file.read(_HEAD_BYTES), file.read()
        except OSError:
            return {}
        if head != _compose_head(data):  # of another Python, or damaged
            return {}
        codes: dict[bytes, bytes] = marshal.loads(data)
        return codes

    def write(self) -> None:
        """Add the newly compiled methods to the file."""
        known = self._read()
        if sum(map(len, known.values())) > _MAXIMUM_BYTES:
            known = {}
        data = marshal.dumps(known | self._new)
        temporary = f"{self._path}.{os.urandom(8).hex()}"
        try:
            with open(temporary, "xb") as file:  # noqa: PTH123
                file.write(_compose_head(data) + data)
            os.replace(temporary, self._path)  # noqa: PTH105
        except OSError:  # a folder of another user's, or a full disk
            with suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108


def _compose_head(data: bytes) -> bytes:
    """Return the beginning of a file: for which Python it is, and a checksum of the rest."""
    return MAGIC_NUMBER + source_hash(data)


compile_generated: Final = MethodCache(f"{cache_from_source(__file__)}.methods")
"""Compiles generated source like ``compile``; the name of the file must have our package in it."""


def install() -> None:
    """Make attrs use the cache of this installation."""
    # In the module, this name has precedence over the built-in function.
    attr._make.compile = compile_generated  # type: ignore[attr-defined]
