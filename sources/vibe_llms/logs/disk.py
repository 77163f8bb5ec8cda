"""The file system operations that logs and stores use.

To test a machine's failure between two operations, replace this class; nothing else in the stores
changes a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO

from vibe_llms.foundation.files import naming, open_handle, synchronize_folder

_FILE_MODE = 0o600  # conversations are private
_FOLDER_MODE = 0o700
_BINARY = getattr(os, "O_BINARY", 0)  # only Windows has another kind
_APPENDING = os.O_RDWR | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | _BINARY


class Disk:
    """File system operations; each method is one step that happens or does not.

    A change of a folder's entries (create, rename, remove) survives a power failure only after
    :meth:`synchronize_folder`; bytes only after :meth:`synchronize`.
    """

    def create(self, path: str) -> FileIO:
        """Create a file for writing; it must not exist yet."""
        return open_handle(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, _FILE_MODE)

    def open_to_append(self, path: str) -> FileIO:
        """Open an existing file for reading and appending; does not block on a pipe.

        The caller, who checks the size in any case, also checks that it is a file.
        """
        return open_handle(path, _APPENDING)

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of the data; if only a part can be written, raise OSError."""
        written = os.write(descriptor, data)
        while written < len(data):
            written += os.write(descriptor, memoryview(data)[written:])

    def overwrite_start(self, descriptor: int, data: bytes) -> None:
        """Overwrite the beginning of a file with a tally or a mark; do not wait for the disk.

        For data that a power failure may lose without harm.
        """
        if hasattr(os, "pwrite"):
            os.pwrite(descriptor, data, 0)
        else:  # Windows
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, data)

    def truncate(self, descriptor: int, size: int) -> None:
        """Truncate a file to a size."""
        os.ftruncate(descriptor, size)

    def synchronize(self, descriptor: int) -> None:
        """Wait until the bytes of the file are on the disk."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(descriptor)
        else:
            os.fsync(descriptor)

    def synchronize_folder(self, path: str) -> None:
        """Wait until the entries of the folder are on the disk."""
        synchronize_folder(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder; replaces an existing file atomically."""
        os.replace(source, target)

    def make_folder(self, path: str) -> None:
        """Create one folder."""
        os.mkdir(path, _FOLDER_MODE)

    def remove(self, path: str) -> None:
        """Remove one file."""
        os.unlink(path)

    def remove_folder(self, path: str) -> None:
        """Remove one empty folder."""
        os.rmdir(path)

    def touch(self, path: str, time_ns: int | None = None) -> None:
        """Set the time of the last write; by default to now."""
        # Without a time, writers other than the owner may set it.
        if time_ns is None:
            os.utime(path)
        else:
            os.utime(path, ns=(time_ns, time_ns))


def write_new_file(disk: Disk, path: str, data: bytes) -> None:
    """Create a file with its bytes on the disk; the caller synchronizes its entry."""
    file = disk.create(path)
    try:
        with naming(path):
            disk.write(file.fileno(), data)
            disk.synchronize(file.fileno())
    except BaseException:
        with suppress(OSError):  # a half-written file would only keep a full disk full
            disk.remove(path)
        raise
    finally:
        file.close()


@contextmanager
def unfinished_folder(disk: Disk, path: str) -> Iterator[None]:
    """Create a folder to be filled and moved away; remove it on failure."""
    disk.make_folder(path)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            remove_tree(disk, path)
        raise


@contextmanager
def replacing(disk: Disk, path: str) -> Iterator[str]:
    """Yield a temporary name for a file that replaces another at the end of the block.

    A crash leaves the old file or the new one. The caller puts the bytes on the disk, and locks out
    other writers of the file: a temporary file that a crash left behind before the rename is
    removed first.
    """
    folder, name = os.path.split(path)
    folder = folder or "."
    for entry in os.listdir(folder):
        if re.fullmatch(rf"\.{re.escape(name)}\.[0-9a-f]{{8}}", entry):
            with suppress(OSError):
                disk.remove(f"{folder}/{entry}")
    # In the same folder, since a rename cannot cross file systems.
    draft = f"{folder}/.{name}.{os.urandom(4).hex()}"
    with naming(path, draft):
        try:
            yield draft
            disk.rename(draft, path)
        except BaseException:
            with suppress(OSError):
                disk.remove(draft)
            raise
    disk.synchronize_folder(folder)


def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Replace a file by another; see :func:`replacing`."""
    with replacing(disk, path) as draft:
        write_new_file(disk, draft, data)


def make_folders(disk: Disk, path: str) -> None:
    """Create a folder and its missing parents, with their entries on the disk."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    make_folders(disk, parent)
    with suppress(FileExistsError):
        disk.make_folder(path)
    # Also for existing folders: another process's entry may not be on the disk yet.
    disk.synchronize_folder(parent)


def remove_tree(disk: Disk, path: str) -> None:
    """Remove a folder and its content; ignore files that others removed at the same time."""
    with suppress(FileNotFoundError):
        with os.scandir(path) as scanned:
            entries = list(scanned)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                remove_tree(disk, entry.path)
            else:
                with suppress(FileNotFoundError):
                    disk.remove(entry.path)
        disk.remove_folder(path)
