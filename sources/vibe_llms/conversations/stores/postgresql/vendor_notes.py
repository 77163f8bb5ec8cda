"""Notes about vendors' files of contents in a database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vibe_llms.conversations.stores.postgresql.database import Database
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.vendor_files import NotedFile, VendorFile

_NOTE: Final = """
INSERT INTO vibe_vendor_files SELECT id, %s, %s, %s FROM vibe_contents
WHERE id = %s AND (data IS NOT NULL OR size IS NOT NULL)
ON CONFLICT (content, account) DO UPDATE SET file = excluded.file, ends = excluded.ends
"""


@define(eq=False)
class PostgresqlNotes:
    """Notes in a table; see :class:`~vibe_llms.messages.vendor_files.VendorFileNotes`.

    The database removes the notes of a removed content.
    """

    _database: Database

    def find(self, content_id: str, account: str) -> VendorFile | None:
        """Return the vendor's file of a content."""
        query = "SELECT file, ends FROM vibe_vendor_files WHERE content = %s AND account = %s"
        with self._database.begin(reading=True) as connection:
            row = connection.execute(query, (content_id, account)).fetchone()
        return None if row is None else VendorFile(id=row[0], ends=row[1])

    def note(self, content_id: str, account: str, file: VendorFile) -> bool:
        """Note the vendor's file of a content, if the store has the content."""
        with self._database.begin() as connection:
            result = connection.execute(_NOTE, (account, file.id, file.ends, content_id))
        return bool(result.rowcount)

    def forget(self, content_id: str, account: str, identity: str) -> None:
        """Remove a note if it still has this id."""
        statement = (
            "DELETE FROM vibe_vendor_files WHERE content = %s AND account = %s AND file = %s"
        )
        with self._database.begin() as connection:
            connection.execute(statement, (content_id, account, identity))

    def survey(self) -> Iterator[NotedFile]:
        """Yield all notes."""
        query = "SELECT content, account, file, ends FROM vibe_vendor_files"
        with self._database.begin(reading=True) as connection:
            rows = connection.execute(query).fetchall()
        for content_id, account, identity, ends in rows:
            yield NotedFile(content_id, account, VendorFile(id=identity, ends=ends))
