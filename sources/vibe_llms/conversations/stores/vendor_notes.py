"""Notes about vendors' files of the contents in a directory: ``vendors.toml`` beside each content.

A file has one table for each account::

    ["https://api.openai.com/v1 5feceb66"]
    id = "file-abc"
    ends = 2026-12-29T12:00:00Z
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

from vibe_llms.conversations.stores.content_directory import ContentDirectory
from vibe_llms.conversations.stores.mapping import mapping_errors
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.files import read_regular
from vibe_llms.logs.disk import replace_file
from vibe_llms.logs.locks import locked
from vibe_llms.messages.vendor_files import NotedFile, VendorFile

FILE_NAME = "vendors.toml"


@define
class DirectoryNotes:
    """Notes beside the contents; see :class:`~vibe_llms.messages.vendor_files.VendorFileNotes`.

    Removing a content removes its folder, and so its notes.
    """

    contents: ContentDirectory

    @mapping_errors
    def find(self, content_id: str, account: str) -> VendorFile | None:
        """Return the vendor's file of a content."""
        return _interpret(self._read(content_id).get(account))

    @mapping_errors
    def note(self, content_id: str, account: str, file: VendorFile) -> bool:
        """Note the vendor's file of a content, if the store has the content."""
        with self.contents.hold():  # so that the folder is not removed in the meantime
            if not self.contents.contains(content_id):
                return False
            with self._lock():
                self._write(content_id, self._read(content_id) | {account: _describe(file)})
        return True

    @mapping_errors
    def forget(self, content_id: str, account: str, identity: str) -> None:
        """Remove a note if it still has this id."""
        with self.contents.hold(), self._lock():
            notes = self._read(content_id)
            noted = _interpret(notes.get(account))
            if noted is not None and noted.id == identity:
                del notes[account]
                self._write(content_id, notes)

    def survey(self) -> Iterator[NotedFile]:
        """Yield all notes."""
        for content_id in self.contents.survey():
            for account, table in self._read(content_id).items():
                file = _interpret(table)
                if file is not None:
                    yield NotedFile(content_id, account, file)

    def _lock(self) -> Any:
        """Return the lock for changes: two processes must not undo each other's notes."""
        return locked(
            f"{self.contents.root}/.vendors.lock", wait_seconds=self.contents.wait_seconds
        )

    def _locate(self, content_id: str) -> str:
        return f"{self.contents.locate(content_id)}/{FILE_NAME}"

    def _read(self, content_id: str) -> dict[str, Any]:
        path = self._locate(content_id)
        if not os.path.exists(path):  # most contents have no notes
            return {}
        import tomli

        # A damaged file is only a lost note.
        with suppress(FileNotFoundError, ValueError):
            return dict(tomli.loads(read_regular(path).decode()))
        return {}

    def _write(self, content_id: str, notes: dict[str, Any]) -> None:
        import tomli_w

        replace_file(self.contents.disk, self._locate(content_id), tomli_w.dumps(notes).encode())


def _describe(file: VendorFile) -> dict[str, Any]:
    return {"id": file.id} | ({} if file.ends is None else {"ends": file.ends})


def _interpret(table: Any) -> VendorFile | None:
    match table:
        case {"id": str(identity), "ends": datetime() as ends} if ends.tzinfo is not None:
            return VendorFile(id=identity, ends=ends)
        case {"id": str(identity)} if "ends" not in table:
            return VendorFile(id=identity)
    return None
