"""Content store in a directory: one folder per content, named by the SHA-256 of its data."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import attrs

from vibe_llms.conversations.canister_media import examine_content
from vibe_llms.conversations.stores.identities import ensure_content_id, is_content_id
from vibe_llms.conversations.stores.interfaces import ContentMetadata
from vibe_llms.conversations.stores.mapping import mapping_errors
from vibe_llms.exceptions import CorruptionError, Finding, StoreError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.files import read_regular
from vibe_llms.logs.disk import (
    Disk,
    make_folders,
    remove_tree,
    unfinished_folder,
    write_new_file,
)
from vibe_llms.logs.locks import WAIT_SECONDS, locked
from vibe_llms.messages.contents import compute_content_id
from vibe_llms.messages.identities import access_now

_HOLD_SECONDS = 60.0
"""Maximum wait of an addition for a garbage collection, which reads all conversations."""


@define
class ContentDirectory:
    """Content store below one folder; see :class:`.interfaces.ContentStore`.

    A folder of content appears complete, by a rename, or not at all.
    """

    root: str
    disk: Disk = attrs.field(factory=Disk)
    wait_seconds: float = WAIT_SECONDS

    def locate(self, content_id: str) -> str:
        """Return the folder of a content."""
        return f"{self.root}/{ensure_content_id(content_id)[:4]}/{content_id}"

    @property
    def _lock(self) -> str:
        make_folders(self.disk, self.root)
        return f"{self.root}/.lock"

    @mapping_errors
    def add(self, data: bytes, *, mime_type: str, name: str | None = None) -> str:
        """Store the data and return their id."""
        with self.hold():
            return self.add_while_locked(data, mime_type=mime_type, name=name)

    def add_while_locked(self, data: bytes, *, mime_type: str, name: str | None) -> str:
        """Store the data and return their id; the caller holds the shared lock."""
        content_id = compute_content_id(data)
        folder = self.locate(content_id)
        parent_folder = os.path.dirname(folder)
        if self.has_size(content_id, len(data)):
            # Its age starts again, as a garbage collection must not remove content that was just
            # added again.
            self.disk.touch(f"{folder}/data")
        else:
            make_folders(self.disk, parent_folder)
            temporary = f"{parent_folder}/.{content_id}.{os.urandom(4).hex()}"
            with unfinished_folder(self.disk, temporary):
                write_new_file(self.disk, f"{temporary}/data", data)
                metadata = _encode_metadata(content_id, mime_type, len(data), name)
                write_new_file(self.disk, f"{temporary}/metadata.toml", metadata)
                self.disk.synchronize_folder(temporary)
                self._move_into_place(temporary, content_id, len(data))
        # Also if the content existed: the process that has added it may not have synced the folder
        # yet.
        self.disk.synchronize_folder(parent_folder)
        return content_id

    def has_size(self, content_id: str, size: int) -> bool:
        """Return whether data of this size exist, without verifying them."""
        folder = self.locate(content_id)
        try:
            # Only the size is compared: a hash would read all data each time; `examine` does that.
            os.stat(f"{folder}/metadata.toml")
            return os.stat(f"{folder}/data").st_size == size
        except FileNotFoundError:
            return False

    def _move_into_place(self, temporary: str, content_id: str, size: int) -> None:
        folder = self.locate(content_id)
        try:
            self.disk.rename(temporary, folder)
        except OSError:
            if not self.has_size(content_id, size):  # damaged: replace it with the intact data
                self.remove(content_id)
                self.disk.rename(temporary, folder)
            else:  # another process has added these data first
                remove_tree(self.disk, temporary)

    @mapping_errors
    def read(self, content_id: str) -> bytes:
        """Return the data, verified against their id."""
        path = f"{self.locate(content_id)}/data"
        try:
            data = read_regular(path)
        except FileNotFoundError as error:
            raise _describe_missing(content_id, path) from error
        if compute_content_id(data) != content_id:
            raise CorruptionError(
                path=path,
                detail="The data do not match the id.",
                remedy="Restore the file from a backup.",
            )
        return data

    @mapping_errors
    def access_metadata(self, content_id: str) -> ContentMetadata:
        """Return the metadata of the content."""
        import tomli

        path = f"{self.locate(content_id)}/metadata.toml"
        try:
            return _interpret(tomli.loads(read_regular(path).decode())["content"])
        except FileNotFoundError as error:
            raise _describe_missing(content_id, path) from error
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(
                path=path, detail=f"Cannot read the metadata of the content: {error}."
            ) from error

    def contains(self, content_id: str) -> bool:
        """Return whether the content exists, without verifying it."""
        return os.path.exists(f"{self.locate(content_id)}/data")

    def survey(self) -> Iterator[str]:
        """Yield the ids of all content."""
        for shard in _list(self.root):
            for entry in _list(f"{self.root}/{shard}"):
                if is_content_id(entry):
                    yield entry

    def examine(self, content_id: str) -> tuple[Finding, ...]:
        """Verify data and metadata against the id; return the errors."""
        return examine_content(self, content_id)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Prevent garbage collection inside the block."""
        with locked(self._lock, shared=True, wait_seconds=max(_HOLD_SECONDS, self.wait_seconds)):
            yield

    @contextmanager
    def hold_alone(self) -> Iterator[None]:
        """Lock exclusively: inside the block no one holds or adds content."""
        with locked(self._lock, wait_seconds=self.wait_seconds):
            self.sweep()
            yield

    @mapping_errors
    def measure_age_seconds(self, content_id: str) -> float:
        """Return the time since the content was last added, in seconds."""
        path = f"{self.locate(content_id)}/data"
        try:
            return time.time() - os.stat(path).st_mtime
        except FileNotFoundError as error:
            raise _describe_missing(content_id, path) from error

    @mapping_errors
    def remove(self, content_id: str) -> None:
        """Remove the content: first make it inaccessible, then delete the data from the disk."""
        folder = self.locate(content_id)
        parent_folder = os.path.dirname(folder)
        trash = f"{parent_folder}/.{content_id}.{os.urandom(4).hex()}"
        # Renamed first, so that a crash during the removal cannot leave partial content under this
        # id.
        self.disk.rename(folder, trash)
        self.disk.synchronize_folder(parent_folder)
        remove_tree(self.disk, trash)

    def sweep(self) -> None:
        """Remove partial content left by crashes; the caller has the exclusive lock."""
        for shard in _list(self.root):
            for entry in _list(f"{self.root}/{shard}"):
                if entry.startswith(".") and is_content_id(entry[1:65]):
                    remove_tree(self.disk, f"{self.root}/{shard}/{entry}")


def _list(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _describe_missing(content_id: str, path: str) -> StoreError:
    return StoreError(path=path, detail=f"Content {content_id} is not in the store.")


def _encode_metadata(content_id: str, mime_type: str, size: int, name: str | None) -> bytes:
    import tomli_w

    metadata: dict[str, object] = {
        "id": content_id,
        "mime_type": mime_type,
        "size_bytes": size,
        "created": access_now(),
        "hash_algorithm": "sha256",
    }
    if name is not None:
        metadata["name"] = name
    # A lone surrogate in a name must not prevent storing the data.
    return tomli_w.dumps({"content": metadata}).encode(errors="replace")


def _interpret(metadata: dict[str, object]) -> ContentMetadata:
    size, created, name = metadata["size_bytes"], metadata["created"], metadata.get("name")
    if not isinstance(size, int) or not isinstance(created, datetime):
        raise TypeError("size_bytes or created has the wrong type")
    return ContentMetadata(
        id=str(metadata["id"]),
        mime_type=str(metadata["mime_type"]),
        size_bytes=size,
        created=created,
        hash_algorithm=str(metadata["hash_algorithm"]),
        name=None if name is None else str(name),
    )
