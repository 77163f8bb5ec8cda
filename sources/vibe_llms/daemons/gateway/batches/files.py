"""Files that clients upload, and files with the results of batches."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import msgspec

from vibe_llms.conversations.stores.content_directory import ContentDirectory
from vibe_llms.conversations.stores.mapping import produce_store_error
from vibe_llms.conversations.stores.vendor_notes import DirectoryNotes
from vibe_llms.exceptions import UnknownNameError
from vibe_llms.foundation.files import read_regular, replace_file
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.contents import ANY_TYPE

_P = ParamSpec("_P")
_R = TypeVar("_R")

_IDENTITY: Final = re.compile(r"[a-z]+[-_][0-9a-f]{24}")


class ClientFile(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a file.

    Attributes:
        id: Such as ``file-0123456789abcdef01234567``.
        name: Its name at the client.
        media_type: Its media type, as the client says.
        purpose: As the client says, such as ``batch``; ``batch_output`` for results.
        created: Seconds since 1970.
        ends: The end that the client has set, in seconds since 1970; ``None`` without one.
        size_bytes: Size of the content.
        content_id: SHA-256 of the content.
        subject: Name of the client; empty without an authorizer.
    """

    id: str
    name: str
    media_type: str = ANY_TYPE
    purpose: str
    created: int
    ends: int | None = None
    size_bytes: int
    content_id: str
    subject: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether the file has reached the end that its client has set."""
        return self.ends is not None and time.time() >= self.ends


class FileStorage:
    """Files in a folder: the metadata of each, and their contents in a content store.

    Equal contents are stored once, and are uploaded once to each vendor: the content store notes
    the vendors' ids. For each file, an empty file with the id of its content is in ``references``.

    Attributes:
        folder: Created when the first file is added.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._contents = ContentDirectory(str(folder / "content"))

    @property
    def vendor_files(self) -> DirectoryNotes:
        """Notes about the contents that vendors have."""
        return DirectoryNotes(self._contents)

    async def add(
        self,
        data: bytes,
        *,
        name: str,
        purpose: str,
        subject: str,
        media_type: str = "",
        ends: int | None = None,
    ) -> ClientFile:
        """Store a file durably. Raises StoreError."""

        def write() -> ClientFile:
            folder = self._references
            make_private(self.folder, folder)
            with self._contents.hold():  # until the content has a reference
                file = ClientFile(
                    id=generate_identity("file-"),
                    name=name,
                    media_type=media_type or ANY_TYPE,
                    purpose=purpose,
                    created=int(time.time()),
                    ends=ends,
                    size_bytes=len(data),
                    content_id=self._contents.add_while_locked(
                        data, mime_type=media_type or ANY_TYPE, name=name
                    ),
                    subject=subject,
                )
                replace_file(folder / f"{file.content_id}.{file.id}", b"", mode=0o600)
                encoded = msgspec.json.encode(file)
                replace_file(self._locate_metadata(file.id), encoded, mode=0o600)
            return file

        return await perform(write)

    async def find(self, identity: str, subject: str) -> ClientFile:
        """Return the metadata of a client's file. Raises UnknownNameError."""
        file = await perform(self._read_metadata, identity)
        if file is None or file.subject != subject or file.has_ended:
            raise UnknownNameError(kind="file", name=identity[:100], known=())
        return file

    async def read(self, file: ClientFile) -> bytes:
        """Return the content of a file. Raises StoreError."""
        return await perform(self._contents.read, file.content_id)

    async def survey(self, subject: str) -> list[ClientFile]:
        """Return a client's files, the oldest first."""

        def survey() -> list[ClientFile]:
            files = filter(None, map(self._read_metadata, self._list_identities()))
            own = (file for file in files if file.subject == subject and not file.has_ended)
            return sorted(own, key=lambda file: (file.created, file.id))

        return await perform(survey)

    async def delete(self, file: ClientFile) -> None:
        """Delete a file. Raises StoreError."""
        await perform(self._delete, file.id, file.content_id)

    def sweep(self, before: float) -> None:
        """Delete the files of all clients that have ended or are older than a moment; blocks."""
        for identity in self._list_identities():
            file = self._read_metadata(identity)
            if file is not None and (file.created < before or file.has_ended):
                self._delete(identity, file.content_id)
        # Left by a process that was killed, or with damaged metadata.
        for reference in _list_names(self._references):
            content_id, _, identity = reference.partition(".")
            is_old = self._read_age(reference) < before
            if is_old and self._read_metadata(identity) is None:
                self._delete(identity, content_id)

    def _delete(self, identity: str, content_id: str) -> None:
        self._locate_metadata(identity).unlink(missing_ok=True)
        with self._contents.hold_alone():
            (self._references / f"{content_id}.{identity}").unlink(missing_ok=True)
            references = _list_names(self._references)
            is_used = any(each.startswith(content_id) for each in references)
            if not is_used and self._contents.contains(content_id):
                self._contents.remove(content_id)

    @property
    def _references(self) -> Path:
        return self.folder / "references"

    def _read_age(self, reference: str) -> float:
        with suppress(FileNotFoundError):
            return (self._references / reference).stat().st_mtime
        return inf

    def _list_identities(self) -> list[str]:
        names = (name.removesuffix(".json") for name in _list_names(self.folder))
        return [name for name in names if is_identity(name)]

    def _locate_metadata(self, identity: str) -> Path:
        return self.folder / f"{identity}.json"

    def _read_metadata(self, identity: str) -> ClientFile | None:
        if not is_identity(identity):  # a client's text, which must not become a path
            return None
        try:
            data = read_regular(str(self._locate_metadata(identity)))
            return msgspec.json.decode(data, type=ClientFile)
        except (FileNotFoundError, *UNREADABLE):
            return None


def make_private(*folders: Path) -> None:
    """Make folders that only this user can read, the outermost first."""
    for folder in folders:
        # The mode applies to the last part of a path only.
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def _list_names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []


def generate_identity(prefix: str) -> str:
    """Return a new random id."""
    return f"{prefix}{os.urandom(12).hex()}"


def is_identity(text: str) -> bool:
    """Return whether a text has the form of an id."""
    return _IDENTITY.fullmatch(text) is not None


async def perform(function: Callable[_P, _R], *args: _P.args, **settings: _P.kwargs) -> _R:
    """Call a function that blocks in a thread. Raises StoreError for an OSError."""
    try:
        return await asyncio.to_thread(function, *args, **settings)
    except OSError as error:
        raise produce_store_error(error) from error
