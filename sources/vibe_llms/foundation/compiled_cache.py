"""Cache of what Python compiles at each start, stored beside the byte code of modules.

As for byte code, nothing is written if Python is told not to write any, and a file that cannot be
read or written costs only time.
"""

from __future__ import annotations

import atexit
import marshal
import os
import sys
from importlib.util import MAGIC_NUMBER, source_hash
from typing import Any, Final

_MAXIMUM_BYTES: Final = 4_000_000
"""Size from which a file is replaced by a new one, as most of it is from earlier versions."""


class CompiledCache:
    """Compiled values by the hash of their source.

    Args:
        path: File of the values.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._values = self._read()
        self._new: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._values)

    def find(self, source: str) -> Any:
        """Return the compiled value of a source, ``None`` if it is unknown."""
        known = self._values.get(_hash(source))
        return None if known is None else marshal.loads(known)

    def add(self, source: str, value: Any) -> None:
        """Add a value, to be written at the end of the process."""
        if not (self._new or sys.dont_write_bytecode):
            atexit.register(self.write)
        self._new[_hash(source)] = marshal.dumps(value)

    def _read(self) -> dict[bytes, bytes]:
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123  # pathlib is not imported yet
                if file.read(len(MAGIC_NUMBER)) != MAGIC_NUMBER:
                    return {}
                values: dict[bytes, bytes] = marshal.loads(file.read())
                return values
        except (OSError, ValueError, EOFError, TypeError):
            return {}

    def write(self) -> None:
        """Add the new values to the file."""
        known = self._read()
        if sum(map(len, known.values())) > _MAXIMUM_BYTES:
            known = {}
        temporary = f"{self._path}.{os.getpid()}"
        try:
            with open(temporary, "wb") as file:  # noqa: PTH123
                file.write(MAGIC_NUMBER + marshal.dumps(known | self._new))
            os.replace(temporary, self._path)  # noqa: PTH105
        except OSError:  # a folder of another user's, or a full disk
            return


def _hash(source: str) -> bytes:
    return source_hash(source.encode())
