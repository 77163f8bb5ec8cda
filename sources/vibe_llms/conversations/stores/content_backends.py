"""Content outside a database: folders and buckets that store bytes under their SHA-256.

The database has the metadata and the locks; a backend only stores bytes. A backend belongs to one
database, whose id is in its marker file: a second database would remove content of the first one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import attrs

from vibe_llms.conversations.stores.content_directory import ContentDirectory
from vibe_llms.conversations.stores.mapping import mapping_errors
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.files import read_regular
from vibe_llms.logs.disk import write_new_file
from vibe_llms.logs.locks import locked

MARKER: Final = "vibe-owner"
"""Name of the marker file, which has the id of the database that a backend belongs to."""


class StoredBytes(NamedTuple):
    """Content in a backend.

    Attributes:
        content_id: SHA-256 of the content.
        size_bytes: Size of the content.
        age_seconds: Time since it was put there.
    """

    content_id: str
    size_bytes: int
    age_seconds: float


class ContentBackend(Protocol):
    """Storage of bytes. Its methods are safe to call from any thread, and raise StoreError."""

    @property
    def address(self) -> str:
        """URL of the backend, which the database stores with each content."""

    def put(self, content_id: str, data: bytes, *, mime_type: str, name: str | None) -> None:
        """Store data durably; idempotent."""

    def has(self, content_id: str, size: int) -> bool:
        """Return whether data of this size exist, without checking their hash."""

    def read(self, content_id: str) -> bytes:
        """Return the data. Raise CorruptionError if their hash is wrong."""

    def remove(self, content_id: str) -> None:
        """Remove the data, if they exist."""

    def sweep(self) -> None:
        """Remove incomplete files of crashed programs; the caller has the lock."""

    def claim(self, mark: str) -> str:
        """Write the mark unless the backend already has a mark; return the backend's mark."""

    def read_mark(self) -> str:
        """Return the mark; empty for an unmarked backend."""

    def survey(self) -> Iterator[StoredBytes]:
        """Yield content that is younger than the marker; older content may belong to others."""


@define(eq=False)
class DirectoryBackend:
    """Folder with one path on all machines; see :class:`ContentBackend`."""

    address: str
    _directory: ContentDirectory = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._directory = ContentDirectory(unquote(urlsplit(self.address).path).rstrip("/"))

    @mapping_errors
    def put(self, content_id: str, data: bytes, *, mime_type: str, name: str | None) -> None:
        """Store the data."""
        self._access_root()
        self._directory.add_while_locked(data, mime_type=mime_type, name=name)

    @mapping_errors
    def has(self, content_id: str, size: int) -> bool:
        """Return whether the data exist."""
        return self._directory.has_size(content_id, size)

    def read(self, content_id: str) -> bytes:
        """Return the data after checking their hash."""
        return self._directory.read(content_id)

    def remove(self, content_id: str) -> None:
        """Remove the data."""
        if self._directory.contains(content_id):
            self._directory.remove(content_id)

    def sweep(self) -> None:
        """Remove incomplete files."""
        self._directory.sweep()

    @mapping_errors
    def claim(self, mark: str) -> str:
        """Create the marker file, unless it exists.

        Under a lock, as others would take an unfinished file for an empty mark. An empty file was
        left by a process that was killed before it wrote.
        """
        if known := self.read_mark():
            return known
        path, disk = self._access_root(), self._directory.disk
        marker = f"{path}/{MARKER}"
        with locked(f"{path}/.lock"):
            if not self.read_mark():
                with suppress(FileNotFoundError):
                    disk.remove(marker)
                write_new_file(disk, marker, mark.encode())
                disk.synchronize_folder(path)
            return self.read_mark()

    @mapping_errors
    def read_mark(self) -> str:
        """Read the marker file."""
        try:
            return read_regular(f"{self._access_root()}/{MARKER}").decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    @mapping_errors
    def survey(self) -> Iterator[StoredBytes]:
        """Yield content that is younger than the marker file."""
        marked = os.stat(f"{self._access_root()}/{MARKER}").st_mtime
        for content_id in self._directory.survey():
            age = self._directory.measure_age_seconds(content_id)
            if time.time() - age >= marked:
                size = self._directory.access_metadata(content_id).size_bytes
                yield StoredBytes(content_id, size, age)

    def _access_root(self) -> str:
        root = self._directory.root
        if not os.path.isdir(root):  # not created, as it would exist only on this machine
            raise StoreError(
                path=root,
                detail=f"The folder for content, {root}, does not exist.",
                remedy="Mount the file system that the machines share, and create the folder.",
            )
        return root


def describe_missing(content_id: str, location: str) -> StoreError:
    """Create the error of content that is missing in its backend."""
    return StoreError(
        path=location,
        detail=f"Content {content_id} is missing in {location}.",
        remedy="Restore it from a backup, or copy it from another store: `vibe store copy`.",
    )
