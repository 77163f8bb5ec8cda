"""Notes in a directory: one file for each, below folders named by the parts of its key."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Final

import msgspec

from vibe_llms.conversations.notes.interfaces import (
    NOTE_BYTES,
    DeletedNote,
    describe_absent,
    describe_existing,
    encode_note,
    ensure_key,
    note_deletions,
)
from vibe_llms.conversations.stores.mapping import mapping_errors
from vibe_llms.exceptions import CorruptionError, StoreError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.files import open_measured
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.logs.disk import Disk, make_folders, replace_file
from vibe_llms.logs.locks import locked

_READING = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)
_DELETED: Final = ".deleted.json"
_DELETED_DECODER: Final = msgspec.json.Decoder(dict[str, DeletedNote])


@define
class NoteDirectory:
    """Notes below a folder; see :class:`~.interfaces.NoteStore`.

    Symbolic links are never followed. People may edit, add and delete the files: hidden files,
    files of more than ``NOTE_BYTES`` and files whose names are not keys are ignored. A hidden file
    in the root lists the deleted notes.
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
    def survey_deleted(self) -> Mapping[str, DeletedNote]:
        """Return the notes that were deleted or moved away."""
        path = f"{self.root}/{_DELETED}"
        try:
            with open_measured(path, _READING)[0] as file:
                return _DELETED_DECODER.decode(file.readall())
        except FileNotFoundError:
            return {}
        except UNREADABLE as error:
            detail = f"{path}, the list of deleted notes, cannot be read: {error}."
            remedy = "Move it away; `vibe sync` may then bring deleted notes back."
            raise CorruptionError(path=path, detail=detail, remedy=remedy) from error

    @mapping_errors
    def read(self, keys: Iterable[str], *, tolerant: bool = False) -> Mapping[str, str]:
        """Return the texts of some notes, by their keys."""
        found = ((key, self._read(key)) for key in keys)
        return {
            key: data.decode("utf-8", "replace") if tolerant else self._decode(key, data)
            for key, data in found
            if data is not None
        }

    def _decode(self, key: str, data: bytes) -> str:
        """Return the text of a file, which another program may have written."""
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            path = f"{self.root}/{key}"
            detail = f"{path} is not UTF-8 (byte {error.start})."
            remedy = "Convert the file to UTF-8, or move it away."
            raise CorruptionError(path=path, detail=detail, remedy=remedy) from error

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
                if old is None:
                    with suppress(CorruptionError):  # reported when the list is needed
                        self._note_deletions(written=[key])
            elif new is None and old is not None:
                # First: a crash in between leaves the note, which can be deleted again.
                self._note_deletions(deleted={key: old})
                self._remove(key)

    def _read_to_change(self, key: str) -> str | None:
        status = self._inspect(key)
        if status is None:
            return None
        path = f"{self.root}/{key}"
        if not stat.S_ISREG(status.st_mode) or status.st_size > NOTE_BYTES:
            detail = f"{path} is not a note: it is a folder, or larger than {NOTE_BYTES} bytes."
            raise StoreError(path=path, detail=detail, remedy="Choose another name.")
        return self._decode(key, self._read(key) or b"")

    @mapping_errors
    def move(self, keys: Mapping[str, str]) -> None:
        """Move notes to other keys."""
        with self._lock():
            moved: dict[str, bytes] = {}
            for old, new in keys.items():
                data = self._read(old)
                if data is None:
                    raise describe_absent(old)
                if self._inspect(ensure_key(new)) is not None:
                    raise describe_existing(new)
                moved[old] = data
            self._note_deletions(deleted=moved, written=keys.values())
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

    def _note_deletions(
        self, *, deleted: Mapping[str, str | bytes] | None = None, written: Iterable[str] = ()
    ) -> None:
        """Update the list of deleted notes."""
        known = self.survey_deleted()
        changed = note_deletions(known, deleted=deleted, written=written)
        if changed != known:
            replace_file(self.disk, f"{self.root}/{_DELETED}", msgspec.json.encode(changed))

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
