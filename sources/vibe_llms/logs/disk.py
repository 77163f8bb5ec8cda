"""The few things which logs and stores ask of a file system, in one place.

Whoever wants to prove what happens when the machine stops between two of them replaces this
class; nothing else in the stores changes a file.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO

from vibe_llms.foundation.files import naming, open_handle, synchronize_folder

_FILE_MODE = 0o600  # what people tell a model is nobody else's business
_FOLDER_MODE = 0o700
_BINARY = getattr(os, "O_BINARY", 0)  # only Windows has another kind
_APPENDING = os.O_RDWR | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | _BINARY


class Disk:
    """Changes files and folders; every method is one step that happens or does not.

    Changing a folder's entries (create, rename, remove) is certain to survive a power failure
    only after :meth:`synchronize_folder`; bytes only after :meth:`synchronize`.
    """

    def create(self, path: str) -> FileIO:
        """Create a file that must not exist yet, to write to it."""
        return open_handle(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, _FILE_MODE)

    def open_to_append(self, path: str) -> FileIO:
        """Opens a file that exists, to read it and to write at its end; a pipe is not waited for.

        Whether it is a file is up to the caller, who looks at its size in any case.
        """
        return open_handle(path, _APPENDING)

    def write(self, descriptor: int, data: bytes) -> None:
        """Writes all of the data, or raises OSError having written some of them."""
        written = os.write(descriptor, data)
        while written < len(data):
            written += os.write(descriptor, memoryview(data)[written:])

    def note(self, descriptor: int, data: bytes) -> None:
        """Writes over the beginning of a file; waits for no disk.

        For what a power failure may take without harm.
        """
        if hasattr(os, "pwrite"):
            os.pwrite(descriptor, data, 0)
        else:  # Windows
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, data)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cuts a file off at a size."""
        os.ftruncate(descriptor, size)

    def synchronize(self, descriptor: int) -> None:
        """Returns when the bytes of the file have reached the disk."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(descriptor)
        else:
            os.fsync(descriptor)

    def synchronize_folder(self, path: str) -> None:
        """Returns when the entries of the folder have reached the disk."""
        synchronize_folder(path)

    def rename(self, source: str, target: str) -> None:
        """Gives a file or folder another path; a file that was there is replaced at once."""
        os.replace(source, target)

    def make_folder(self, path: str) -> None:
        """Makes one folder."""
        os.mkdir(path, _FOLDER_MODE)

    def remove(self, path: str) -> None:
        """Removes one file."""
        os.unlink(path)

    def remove_folder(self, path: str) -> None:
        """Removes one empty folder."""
        os.rmdir(path)

    def touch(self, path: str, moment_ns: int | None = None) -> None:
        """Sets when the file was last written; to now by default."""
        moment_ns = time.time_ns() if moment_ns is None else moment_ns
        os.utime(path, ns=(moment_ns, moment_ns))


def write_new_file(disk: Disk, path: str, data: bytes) -> None:
    """Creates a file with its bytes on the disk; its entry is up to the caller."""
    file = disk.create(path)
    try:
        with naming(path):
            disk.write(file.fileno(), data)
            disk.synchronize(file.fileno())
    except BaseException:
        with suppress(OSError):  # what is half written would only keep a full disk full
            disk.remove(path)
        raise
    finally:
        file.close()


@contextmanager
def unfinished_folder(disk: Disk, path: str) -> Iterator[None]:
    """Makes a folder, to be filled and moved away; removes it where that fails."""
    disk.make_folder(path)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            remove_tree(disk, path)
        raise


@contextmanager
def replacing(disk: Disk, path: str) -> Iterator[str]:
    """Lends a name for a file that then takes the place of another.

    A crash leaves the old one or the new one. The caller sees to it that the bytes are on the disk,
    and keeps others from replacing it meanwhile: what earlier ones left, whom a crash had ended
    before the rename, is removed first.
    """
    folder, name = os.path.split(path)
    folder = folder or "."
    for entry in os.listdir(folder):
        if re.fullmatch(rf"\.{re.escape(name)}\.[0-9a-f]{{8}}", entry):
            with suppress(OSError):
                disk.remove(f"{folder}/{entry}")
    # Beside it, since a rename does not lead from one file system to another.
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
    """Puts a file in the place of another; see :func:`replacing`."""
    with replacing(disk, path) as draft:
        write_new_file(disk, draft, data)


def make_folders(disk: Disk, path: str) -> None:
    """Makes a folder and those above it where they are missing, entries on the disk."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    make_folders(disk, above)
    with suppress(FileExistsError):
        disk.make_folder(path)
    # Also where others were faster: their entry may not be on the disk yet.
    disk.synchronize_folder(above)


def remove_tree(disk: Disk, path: str) -> None:
    """Removes a folder with all that is in it; what others removed meanwhile is no matter."""
    with suppress(FileNotFoundError):
        for entry in list(os.scandir(path)):
            if entry.is_dir(follow_symlinks=False):
                remove_tree(disk, entry.path)
            else:
                with suppress(FileNotFoundError):
                    disk.remove(entry.path)
        disk.remove_folder(path)
