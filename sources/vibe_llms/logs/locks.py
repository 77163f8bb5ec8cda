"""Locks between processes; they end with the process that holds them.

A lock is a file; a log may be its own lock. ``flock`` belongs to the open file, so that it also
excludes threads of the same process.
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
"""Timeout for a lock. The longest work under a lock is copying a parent's history into its forks,
or a garbage collection of content: seconds for gigabytes."""

_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
"""Network file systems require that a locked file is open for writing; a log is appended to."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.0002, 0.02

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int, shared: bool) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # msvcrt has no shared locks
        except OSError:
            return False
        return True

    def unlock(lock: FileIO) -> None:
        """Release a lock, and leave its file open."""
        msvcrt.locking(lock.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int, shared: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(lock: FileIO) -> None:
        """Release a lock, and leave its file open."""
        fcntl.flock(lock.fileno(), fcntl.LOCK_UN)


def acquire(path: str, *, shared: bool = False, wait_seconds: float = WAIT_SECONDS) -> FileIO:
    """Lock the file at a path; return the open file, which :func:`release` takes.

    An interrupt leaves no lock behind: the lock ends with the last reference to the file.

    Raises:
        FileNotFoundError: The file does not exist, or was removed during the wait.
        StoreError: Another process held the lock for longer than ``wait_seconds``.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        file = _open(path)
        try:
            descriptor = file.fileno()
            if not _try_lock(descriptor, shared):
                _wait(descriptor, path, shared, deadline)
            # The file was removed or replaced during the wait: a lock on it would exclude no one.
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return file
        except BaseException as error:
            file.close()
            if isinstance(error, OSError):
                name_file(error, path)
            raise
        file.close()  # another file has taken its place: lock that one


def acquire_again(lock: FileIO, path: str, *, wait_seconds: float = WAIT_SECONDS) -> None:
    """Lock a file that is still open; the caller checks that it is still the one at the path.

    Raises:
        StoreError: Another process held the lock for longer than ``wait_seconds``.
    """
    if not _try_lock(lock.fileno(), False):
        _wait(lock.fileno(), path, False, time.monotonic() + wait_seconds)


def _open(path: str) -> FileIO:
    try:
        return open_handle(path, _FLAGS)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES):
            raise
        return open_handle(path, os.O_RDONLY)  # enough to read a file that is read-only


def _wait(descriptor: int, path: str, shared: bool, deadline: float) -> None:
    pause = _FIRST_PAUSE_SECONDS
    while not _try_lock(descriptor, shared):
        if time.monotonic() >= deadline:
            from vibe_llms.exceptions import StoreError  # `vibe list` rarely raises it

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
        # Closing alone would leave the lock with a child process that was forked during it.
        unlock(lock)


def make_lock(path: str) -> None:
    """Create the lock's file if it is missing."""
    open_handle(path, os.O_RDWR | os.O_CREAT, 0o600).close()


@contextmanager
def locked(
    path: str, *, shared: bool = False, wait_seconds: float = WAIT_SECONDS
) -> Iterator[None]:
    """Hold the lock at a path; create its file if it is missing."""
    while True:
        try:
            lock = acquire(path, shared=shared, wait_seconds=wait_seconds)
            break
        except FileNotFoundError:
            # Several processes may create it at the same moment: all lock the same file.
            make_lock(path)
    with lock:
        try:
            yield
        finally:
            release(lock)
