"""Notes in a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.conversations.notes.interfaces import (
    DELETIONS,
    DeletedNote,
    describe_absent,
    describe_existing,
    digest_note,
    encode_note,
    ensure_key,
)
from vibe_llms.conversations.stores.postgresql.database import Database
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.identities import access_now

if TYPE_CHECKING:
    import psycopg

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
"""Lock for a note, which may not exist yet, until the end of the transaction."""

_WRITE: Final = (
    "INSERT INTO vibe_notes VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET text = excluded.text"
)

_DELETE: Final = "DELETE FROM vibe_notes WHERE key = %s"
_REMEMBER: Final = (
    "INSERT INTO vibe_deleted_notes VALUES (%s, %s, %s)"
    " ON CONFLICT (key) DO UPDATE SET digest = excluded.digest, moment = excluded.moment"
)
_FORGET: Final = "DELETE FROM vibe_deleted_notes WHERE key = %s"
_FORGET_OLDEST: Final = (
    "DELETE FROM vibe_deleted_notes WHERE key IN (SELECT key FROM vibe_deleted_notes"
    " ORDER BY moment DESC OFFSET %s FOR UPDATE SKIP LOCKED)"
)


@define(eq=False)
class NoteRows:
    """Notes in a table; see :class:`~vibe_llms.conversations.notes.interfaces.NoteStore`."""

    _database: Database

    def survey(self, prefix: str) -> Mapping[str, str]:
        """Return a stamp for each note whose key begins with a prefix."""
        query = "SELECT key, md5(text) FROM vibe_notes WHERE starts_with(key, %s) ORDER BY key"
        with self._database.transact(reading=True) as connection:
            return dict(connection.execute(query, (prefix,)).fetchall())

    def survey_deleted(self) -> Mapping[str, DeletedNote]:
        """Return the notes that were deleted or moved away."""
        query = "SELECT key, digest, moment FROM vibe_deleted_notes"
        with self._database.transact(reading=True) as connection:
            rows = connection.execute(query).fetchall()
        return {key: DeletedNote(digest, moment) for key, digest, moment in rows}

    def read(self, keys: Iterable[str], *, tolerant: bool = False) -> Mapping[str, str]:
        """Return the texts of some notes, by their keys."""
        query = "SELECT key, text FROM vibe_notes WHERE key = ANY(%s)"
        with self._database.transact(reading=True) as connection:
            return dict(connection.execute(query, ([*map(ensure_key, keys)],)).fetchall())

    def change(self, key: str, change: Callable[[str | None], str | None]) -> None:
        """Replace the text of a note."""
        ensure_key(key)
        with self._database.begin() as connection:
            old = _find(connection, key)
            new = change(old)
            if new is not None and new != old:
                connection.execute(_WRITE, (key, encode_note(new).decode()))
                if old is None:
                    connection.execute(_FORGET, (key,))
            elif new is None and old is not None:
                connection.execute(_DELETE, (key,))
                _remember(connection, {key: old})

    def move(self, keys: Mapping[str, str]) -> None:
        """Move notes to other keys."""
        with self._database.begin() as connection:
            moved: dict[str, str] = {}
            for old, new in sorted(keys.items()):
                text = _find(connection, ensure_key(old))
                if text is None:
                    raise describe_absent(old)
                moved[old] = text
                if _find(connection, ensure_key(new)) is not None:
                    raise describe_existing(new)
                connection.execute("UPDATE vibe_notes SET key = %s WHERE key = %s", (new, old))
                connection.execute(_FORGET, (new,))
            _remember(connection, moved)


def _remember(connection: psycopg.Connection[Any], deleted: Mapping[str, str]) -> None:
    """Remember that some notes were deleted; forget the oldest deletions beyond the limit."""
    for key, text in deleted.items():
        connection.execute(_REMEMBER, (key, digest_note(text), access_now()))
    connection.execute(_FORGET_OLDEST, (DELETIONS,))


def _find(connection: psycopg.Connection[Any], key: str) -> str | None:
    """Lock a note, and return its text."""
    connection.execute(_LOCK, (key,))
    query = "SELECT text FROM vibe_notes WHERE key = %s"
    row: tuple[str] | None = connection.execute(query, (key,)).fetchone()
    return None if row is None else row[0]
