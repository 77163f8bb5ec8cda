"""Locks between processes, which end with the process that holds them however it ends.

A lock is a file, and a log may be its own. ``flock`` belongs to the open file, so that
it also keeps threads of one process apart.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

from vibe_llms.foundation.files import name_file, open_handle

WAIT_SECONDS = 10.0
"""How long a lock is waited for. The longest that one is held is the copying of a parent's
history into its forks, or a collection of content: seconds for gigabytes."""

_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
"""Network file systems want a lock to be open for writing; a log is written to at its end."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.0002, 0.02

if sys.platform == "win32":
    import msvcrt

    def _try(descriptor: int, shared: bool) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # it knows no shared locks
        except OSError:
            return False
        return True

    def _release(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try(descriptor: int, shared: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def acquire(path: str, *, shared: bool = False, wait_seconds: float = WAIT_SECONDS) -> FileIO:
    """Lock the file at a path; return the open file, which :func:`release` takes.

    An interrupt leaves no lock behind: the lock ends with the last reference to the file.

    Raises:
        FileNotFoundError: There is no such file, or it was removed while it was waited for.
        StoreError: Somebody else kept it for longer than ``wait_seconds``.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        file = _open(path)
        try:
            descriptor = file.fileno()
            if not _try(descriptor, shared):
                _wait(descriptor, path, shared, deadline)
            # Removed or replaced while we waited: what we hold then locks nobody out.
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return file
        except BaseException as error:
            file.close()
            if isinstance(error, OSError):
                name_file(error, path)
            raise
        file.close()  # another file has taken its place: that one is to be locked


def _open(path: str) -> FileIO:
    try:
        return open_handle(path, _FLAGS)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES):
            raise
        return open_handle(path, os.O_RDONLY)  # enough to read what nobody may change


def _wait(descriptor: int, path: str, shared: bool, deadline: float) -> None:
    pause = _FIRST_PAUSE_SECONDS
    while not _try(descriptor, shared):
        if time.monotonic() >= deadline:
            from vibe_llms.exceptions import StoreError  # `vibe list` locks, and needs no error

            raise StoreError(
                path=path,
                detail=f"{path} is locked by another process.",
                remedy="Wait until it is done, or stop it, and try again.",
            )
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


def release(lock: FileIO) -> None:
    """Release a lock."""
    with lock:
        # Closing alone would leave it with a child that was forked off meanwhile.
        _release(lock.fileno())


def make_lock(path: str) -> None:
    """Make the file of a lock where it is missing."""
    open_handle(path, os.O_RDWR | os.O_CREAT, 0o600).close()


@contextmanager
def locked(
    path: str, *, shared: bool = False, wait_seconds: float = WAIT_SECONDS
) -> Iterator[None]:
    """Holds the lock at a path, and makes its file where it is missing."""
    while True:
        try:
            lock = acquire(path, shared=shared, wait_seconds=wait_seconds)
            break
        except FileNotFoundError:
            # Several may make it at the same moment: they all come to lock the same file.
            make_lock(path)
    with lock:
        try:
            yield
        finally:
            release(lock)
