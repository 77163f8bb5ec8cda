"""Notes in a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.conversations.notes.interfaces import (
    describe_absent,
    describe_existing,
    encode_note,
    ensure_key,
)
from vibe_llms.conversations.stores.postgresql.database import Database
from vibe_llms.foundation.attrs_classes import define

if TYPE_CHECKING:
    import psycopg

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
"""Lock for a note, which may not exist yet, until the end of the transaction."""

_WRITE: Final = (
    "INSERT INTO vibe_notes VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET text = excluded.text"
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

    def read(self, keys: Iterable[str]) -> Mapping[str, str]:
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
            elif new is None:
                connection.execute("DELETE FROM vibe_notes WHERE key = %s", (key,))

    def move(self, keys: Mapping[str, str]) -> None:
        """Move notes to other keys."""
        with self._database.begin() as connection:
            for old, new in sorted(keys.items()):
                if _find(connection, ensure_key(old)) is None:
                    raise describe_absent(old)
                if _find(connection, ensure_key(new)) is not None:
                    raise describe_existing(new)
                connection.execute("UPDATE vibe_notes SET key = %s WHERE key = %s", (new, old))


def _find(connection: psycopg.Connection[Any], key: str) -> str | None:
    """Lock a note, and return its text."""
    connection.execute(_LOCK, (key,))
    query = "SELECT text FROM vibe_notes WHERE key = %s"
    row: tuple[str] | None = connection.execute(query, (key,)).fetchone()
    return None if row is None else row[0]
