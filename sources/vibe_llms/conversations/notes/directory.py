"""Notes in a directory: one file for each, below folders named by the parts of its key."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress

from vibe_llms.conversations.notes.interfaces import (
    NOTE_BYTES,
    describe_absent,
    describe_existing,
    encode_note,
    ensure_key,
)
from vibe_llms.conversations.stores.mapping import mapping_errors
from vibe_llms.exceptions import CorruptionError, StoreError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.files import open_measured
from vibe_llms.logs.disk import Disk, make_folders, replace_file
from vibe_llms.logs.locks import locked

_READING = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)


@define
class NoteDirectory:
    """Notes below a folder; see :class:`~.interfaces.NoteStore`.

    Symbolic links are never followed. People may edit, add and delete the files: hidden files,
    files of more than ``NOTE_BYTES`` and files whose names are not keys are ignored.
    """

    root: str
    disk: Disk
    wait_seconds: float

    @mapping_errors
    def survey(self, prefix: str) -> Mapping[str, str]:
        """Return a stamp for each note whose key begins with a prefix."""
        folder = prefix.rpartition("/")[0]
        if folder and self._inspect(ensure_key(folder)) is None:
            return {}
        found = self._scan(folder)
        return {key: stamp for key, stamp in sorted(found) if key.startswith(prefix)}

    def _scan(self, folder: str) -> Iterator[tuple[str, str]]:
        with suppress(FileNotFoundError, NotADirectoryError):
            with os.scandir(f"{self.root}/{folder}") as scanned:
                entries = list(scanned)
            for entry in entries:
                key = f"{folder}/{entry.name}" if folder else entry.name
                with suppress(StoreError, FileNotFoundError, UnicodeEncodeError):
                    ensure_key(key)
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        yield from self._scan(key)
                    elif stat.S_ISREG(status.st_mode) and status.st_size <= NOTE_BYTES:
                        yield key, f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"

    @mapping_errors
    def read(self, keys: Iterable[str]) -> Mapping[str, str]:
        """Return the texts of some notes, by their keys."""
        # A file that another program has written may have other bytes than UTF-8.
        found = ((key, self._read(key)) for key in keys)
        return {key: data.decode("utf-8", "replace") for key, data in found if data is not None}

    def _read(self, key: str) -> bytes | None:
        """Return the bytes of a note; ``None`` if it is missing or too large."""
        status = self._inspect(ensure_key(key))
        if status is None or stat.S_ISDIR(status.st_mode):
            return None
        try:
            file, status = open_measured(f"{self.root}/{key}", _READING)
        except FileNotFoundError:  # deleted in between
            return None
        with file:
            return file.readall() if status.st_size <= NOTE_BYTES else None

    @mapping_errors
    def change(self, key: str, change: Callable[[str | None], str | None]) -> None:
        """Replace the text of a note."""
        ensure_key(key)
        with self._lock():
            old = self._read_to_change(key)
            new = change(old)
            if new is not None and new != old:
                self._write(key, encode_note(new))
            elif new is None and old is not None:
                self._remove(key)

    def _read_to_change(self, key: str) -> str | None:
        status = self._inspect(key)
        if status is None:
            return None
        path = f"{self.root}/{key}"
        if not stat.S_ISREG(status.st_mode) or status.st_size > NOTE_BYTES:
            detail = f"{path} is not a note: it is a folder, or larger than {NOTE_BYTES} bytes."
            raise StoreError(path=path, detail=detail, remedy="Choose another name.")
        try:
            return (self._read(key) or b"").decode()
        except UnicodeDecodeError as error:
            detail = f"{path} is not UTF-8."
            remedy = "Convert the file to UTF-8, or move it away."
            raise CorruptionError(path=path, detail=detail, remedy=remedy) from error

    @mapping_errors
    def move(self, keys: Mapping[str, str]) -> None:
        """Move notes to other keys."""
        with self._lock():
            for old, new in keys.items():
                if self._read(old) is None:
                    raise describe_absent(old)
                if self._inspect(ensure_key(new)) is not None:
                    raise describe_existing(new)
            for old, new in keys.items():
                source, target = f"{self.root}/{old}", f"{self.root}/{new}"
                make_folders(self.disk, os.path.dirname(target))
                self.disk.rename(source, target)
                self.disk.synchronize_folder(os.path.dirname(target))
                self.disk.synchronize_folder(os.path.dirname(source))
                self._remove_empty(source)

    def _write(self, key: str, data: bytes) -> None:
        path = f"{self.root}/{key}"
        make_folders(self.disk, os.path.dirname(path))
        replace_file(self.disk, path, data)

    def _remove(self, key: str) -> None:
        path = f"{self.root}/{key}"
        self.disk.remove(path)
        self.disk.synchronize_folder(os.path.dirname(path))
        self._remove_empty(path)

    def _remove_empty(self, path: str) -> None:
        """Remove the folders that contained only this note."""
        folder = os.path.dirname(path)
        with suppress(OSError):  # it is not empty
            while folder != self.root:
                self.disk.remove_folder(folder)
                folder = os.path.dirname(folder)

    def _inspect(self, key: str) -> os.stat_result | None:
        """Return the status of a file or folder, after checking that no part of it is a link."""
        path, status = self.root, None
        for part in key.split("/"):
            path = f"{path}/{part}"
            try:
                status = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
            if stat.S_ISLNK(status.st_mode):
                detail = f"{path} is a symbolic link, which is not followed."
                remedy = "Replace it by the file or folder that it refers to."
                raise StoreError(path=path, detail=detail, remedy=remedy)
        return status

    def _lock(self) -> AbstractContextManager[None]:
        make_folders(self.disk, self.root)
        return locked(f"{self.root}/.lock", wait_seconds=self.wait_seconds)
