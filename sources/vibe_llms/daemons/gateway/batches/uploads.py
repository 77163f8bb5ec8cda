"""Uploads in pieces, on disk, so that each piece may reach another worker process."""

from __future__ import annotations

from pathlib import Path

import msgspec

from vibe_llms.daemons.gateway.batches.files import (
    generate_identity,
    is_identity,
    make_private,
    perform,
)
from vibe_llms.exceptions import UnknownNameError
from vibe_llms.foundation.files import read_regular, replace_file
from vibe_llms.foundation.json_errors import UNREADABLE

PREFIX = "upload-"


class PendingUpload(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of an upload that is not complete.

    Attributes:
        id: A secret, as pieces are accepted without a key.
        name: Name of the file.
        media_type: Media type of the file.
        subject: Name of the client.
        size: Size of all pieces; ``None`` if the client did not say.
    """

    id: str
    name: str
    media_type: str
    subject: str
    size: int | None


class PendingUploads:
    """Uploads in a folder. Raises StoreError for errors of the disk.

    Args:
        folder: Created with the first upload.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def begin(
        self, *, name: str, media_type: str, subject: str, size: int | None
    ) -> PendingUpload:
        """Begin an upload."""
        upload = PendingUpload(
            id=generate_identity(PREFIX),
            name=name,
            media_type=media_type,
            subject=subject,
            size=size,
        )

        def write() -> None:
            make_private(self._folder.parent, self._folder)
            replace_file(self._folder / upload.id, b"", mode=0o600)
            encoded = msgspec.json.encode(upload)
            replace_file(self._folder / f"{upload.id}.json", encoded, mode=0o600)

        await perform(write)
        return upload

    async def find(self, identity: str) -> tuple[PendingUpload, int]:
        """Return an upload, and the size of its pieces so far. Raises UnknownNameError."""

        def read() -> tuple[PendingUpload, int] | None:
            if not (is_identity(identity) and identity.startswith(PREFIX)):
                return None
            try:
                data = read_regular(str(self._folder / f"{identity}.json"))
                upload = msgspec.json.decode(data, type=PendingUpload)
                return upload, (self._folder / identity).stat().st_size
            except (FileNotFoundError, *UNREADABLE):
                return None

        found = await perform(read)
        if found is None:
            raise UnknownNameError(kind="upload", name=identity[:100], known=())
        return found

    async def append(self, upload: PendingUpload, piece: bytes) -> None:
        """Append a piece."""

        def append() -> None:
            with (self._folder / upload.id).open("ab") as file:
                file.write(piece)

        await perform(append)

    async def finish(self, upload: PendingUpload) -> bytes:
        """Return the data, and delete the upload."""

        def finish() -> bytes:
            data = read_regular(str(self._folder / upload.id))
            self._delete(upload.id)
            return data

        return await perform(finish)

    def sweep(self, before: float) -> None:
        """Delete uploads without a piece since a moment; blocks."""
        paths = list(self._folder.iterdir()) if self._folder.is_dir() else ()
        for path in paths:
            if is_identity(path.name) and path.stat().st_mtime < before:
                self._delete(path.name)

    def _delete(self, identity: str) -> None:
        (self._folder / f"{identity}.json").unlink(missing_ok=True)
        (self._folder / identity).unlink(missing_ok=True)
