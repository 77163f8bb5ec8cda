"""Files that others have made: what never ends, or waits for ever, is an error like any other.

Whoever opens a pipe waits until somebody writes to it, and a device such as ``/dev/zero`` has
no end. Both can be where a file is expected, by mistake or by somebody's intent.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_BLOCK_BYTES = 1 << 16


def open_regular(path: str, flags: int = os.O_RDONLY) -> int:
    """Opens a file that exists and has an end; returns a descriptor.

    Raises:
        OSError: It cannot be opened, or is a folder, a pipe or a device.
    """
    descriptor = os.open(path, flags | _AT_ONCE)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise OSError(errno.EINVAL, "This is a pipe or a device, not a file", path)
    return descriptor


def read_regular(path: str) -> bytes:
    """Reads the whole of a file that has an end. Raises OSError as :func:`open_regular`."""
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read()


def read_file(path: Path | str, limit_bytes: int = 20_000_000) -> bytes:
    """Reads what a person has named: a file, or what a program writes into a pipe.

    Raises:
        OSError: It cannot be read, has more bytes than the limit, or is a pipe that nobody
            writes to.
    """
    data = read_beginning(path, limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"It has more than {limit_bytes} bytes", os.fspath(path))
    return data


def read_beginning(path: Path | str, size_bytes: int) -> bytes:
    """Reads so much of what a person has named. Raises OSError as :func:`read_file`."""
    shown = os.fspath(path)
    descriptor = os.open(shown, os.O_RDONLY | _AT_ONCE)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), shown)
        data = _read_first(descriptor, stat.S_ISFIFO(mode), shown)
        while len(data) < size_bytes:
            more = os.read(descriptor, min(_BLOCK_BYTES, size_bytes - len(data)))
            if not more:
                break
            data += more
        return bytes(data)
    finally:
        os.close(descriptor)


def _read_first(descriptor: int, is_pipe: bool, shown: str) -> bytearray:
    """Returns what a pipe has already, having seen that somebody writes to it."""
    data = b""
    if is_pipe:
        try:
            data = os.read(descriptor, _BLOCK_BYTES)
        except BlockingIOError:
            pass  # its writer is still at work
        else:
            if not data:
                raise OSError(errno.ENXIO, "Nobody writes to this pipe", shown)
    if _AT_ONCE and hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)
    return bytearray(data)
