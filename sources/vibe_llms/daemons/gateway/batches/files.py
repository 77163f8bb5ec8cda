"""Files that clients upload, and files with the results of batches."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import msgspec

from vibe_llms.conversations.stores.mapping import produce_store_error
from vibe_llms.exceptions import UnknownNameError
from vibe_llms.foundation.files import read_regular, replace_file
from vibe_llms.foundation.json_errors import UNREADABLE

_P = ParamSpec("_P")
_R = TypeVar("_R")

_IDENTITY: Final = re.compile(r"[a-z]+[-_][0-9a-f]{24}")


class ClientFile(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a file.

    Attributes:
        id: Such as ``file-0123456789abcdef01234567``.
        name: Its name at the client.
        purpose: As the client says, such as ``batch``; ``batch_output`` for results.
        created: Seconds since 1970.
        size_bytes: Size of the content.
        subject: Name of the client; empty without an authorizer.
    """

    id: str
    name: str
    purpose: str
    created: int
    size_bytes: int
    subject: str = ""


class FileStorage:
    """Files in a folder, each with its metadata beside it.

    Args:
        folder: Created when the first file is added.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def add(self, data: bytes, *, name: str, purpose: str, subject: str) -> ClientFile:
        """Store a file durably. Raises StoreError."""
        file = ClientFile(
            id=generate_identity("file-"),
            name=name,
            purpose=purpose,
            created=int(time.time()),
            size_bytes=len(data),
            subject=subject,
        )

        def write() -> None:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(self._folder / file.id, data, mode=0o600)
            replace_file(self._locate_metadata(file.id), msgspec.json.encode(file), mode=0o600)

        await perform(write)
        return file

    async def find(self, identity: str, subject: str) -> ClientFile:
        """Return the metadata of a client's file. Raises UnknownNameError."""
        file = await perform(self._read_metadata, identity)
        if file is None or file.subject != subject:
            raise UnknownNameError(kind="file", name=identity[:100], known=())
        return file

    async def read(self, file: ClientFile) -> bytes:
        """Return the content of a file. Raises StoreError."""
        return await perform(read_regular, str(self._folder / file.id))

    async def survey(self, subject: str) -> list[ClientFile]:
        """Return a client's files, the oldest first."""

        def survey() -> list[ClientFile]:
            paths = self._folder.glob("*.json") if self._folder.is_dir() else ()
            files = filter(None, (self._read_metadata(path.stem) for path in paths))
            own = (file for file in files if file.subject == subject)
            return sorted(own, key=lambda file: (file.created, file.id))

        return await perform(survey)

    async def delete(self, file: ClientFile) -> None:
        """Delete a file. Raises StoreError."""
        await perform(self._delete, file.id)

    def sweep(self, before: float) -> None:
        """Delete the files of all clients that are older than a moment; blocks."""
        for path in list(self._folder.glob("*")):
            if not is_identity(path.stem):
                continue
            file = self._read_metadata(path.stem)
            with suppress(FileNotFoundError):
                # Without metadata, it is damaged, or its creator was killed.
                created = path.stat().st_mtime if file is None else file.created
                if created < before:
                    self._delete(path.stem)

    def _delete(self, identity: str) -> None:
        self._locate_metadata(identity).unlink(missing_ok=True)
        (self._folder / identity).unlink(missing_ok=True)

    def _locate_metadata(self, identity: str) -> Path:
        return self._folder / f"{identity}.json"

    def _read_metadata(self, identity: str) -> ClientFile | None:
        if not is_identity(identity):  # a client's text, which must not become a path
            return None
        try:
            data = read_regular(str(self._locate_metadata(identity)))
            return msgspec.json.decode(data, type=ClientFile)
        except (FileNotFoundError, *UNREADABLE):
            return None


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
