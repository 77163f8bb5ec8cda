"""Content in a table, each under the SHA-256 of its data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from vibe_llms.conversations.stores.interfaces import ContentMetadata
from vibe_llms.conversations.stores.naming import ensure_content_id
from vibe_llms.conversations.stores.postgresql.database import Database
from vibe_llms.exceptions import CorruptionError, Finding, StoreError
from vibe_llms.logs.locks import WAIT_SECONDS
from vibe_llms.messages.contents import compute_content_id
from vibe_llms.messages.identities import access_now
from vibe_llms.values import define

_PAUSE_SECONDS = 0.05


class _About(msgspec.Struct):
    mime_type: str
    name: str | None = None


@define(eq=False)
class PostgresqlContents:
    """Keeps content in a database; see :class:`..interfaces.ContentStore`.

    Whoever adds has a lock of the table that others may have, too, until it is committed; who
    collects has one that keeps these out.
    """

    _database: Database
    _wait_seconds: float = WAIT_SECONDS

    def add(self, data: bytes, *, mime_type: str, name: str | None = None) -> str:
        """Keeps the data and returns their id."""
        content_id = compute_content_id(data)
        about = msgspec.json.encode(_About(_mend(mime_type), _mend(name))).decode()
        now = access_now()
        with self._database.transact() as connection:
            # Looked for first: what is there need not be sent again.
            renewed = connection.execute(
                "UPDATE vibe_contents SET added = %s WHERE id = %s AND octet_length(data) = %s",
                (now, content_id, len(data)),
            )
            if not renewed.rowcount:
                connection.execute(
                    "INSERT INTO vibe_contents VALUES (%s, %s, %s, %s, %s) ON CONFLICT (id)"
                    " DO UPDATE SET added = excluded.added, data = excluded.data",
                    (content_id, data, about, now, now),
                )
        return content_id

    def read(self, content_id: str) -> bytes:
        """Returns the data, proven against their id."""
        (data,) = self._access(content_id, "SELECT data FROM vibe_contents WHERE id = %s")
        if compute_content_id(data) != content_id:
            raise CorruptionError(
                path=self._place(content_id),
                detail="The data are not those which the id names.",
                remedy="Restore the row from a backup.",
            )
        return bytes(data)

    def access_metadata(self, content_id: str) -> ContentMetadata:
        """Returns what is known about the content."""
        about, size, created = self._access(
            content_id,
            "SELECT about, octet_length(data), created FROM vibe_contents WHERE id = %s",
        )
        try:
            known = msgspec.json.decode(about, type=_About)
        except msgspec.MsgspecError as error:
            detail = f"The metadata of the content do not read: {error}."
            raise CorruptionError(path=self._place(content_id), detail=detail) from error
        return ContentMetadata(
            id=content_id,
            mime_type=known.mime_type,
            size_bytes=size,
            created=created,
            name=known.name,
        )

    def contains(self, content_id: str) -> bool:
        """Tells whether the content is there, without proving it."""
        question = "SELECT 1 FROM vibe_contents WHERE id = %s"
        with self._database.transact(reading=True) as connection:
            found = connection.execute(question, (ensure_content_id(content_id),)).fetchone()
        return found is not None

    def survey(self) -> Iterator[str]:
        """Yields the ids of all content."""
        with self._database.transact(reading=True) as connection:
            rows = connection.execute("SELECT id FROM vibe_contents").fetchall()
        return iter([each for (each,) in rows])

    def examine(self, content_id: str) -> tuple[Finding, ...]:
        """Proves data and metadata against the id; returns what is wrong."""
        findings = []
        for prove in (self.read, self.access_metadata):
            try:
                prove(content_id)
            except CorruptionError as error:
                findings.append(Finding(place=error.path, message=error.detail))
            except StoreError as error:
                findings.append(Finding(place=error.path, message=str(error)))
        return tuple(findings)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """While it is entered, nothing is collected."""
        # A connection of its own: what is added meanwhile is kept, whatever comes of this.
        with self._database.begun() as connection:
            connection.execute("LOCK TABLE vibe_contents IN ROW EXCLUSIVE MODE")
            yield

    @contextmanager
    def hold_alone(self) -> Iterator[None]:
        """While it is entered, nobody holds or adds; what is removed goes when it is left."""
        with self._database.transact() as connection:
            self._lock(connection)
            yield

    def _lock(self, connection: Any) -> None:
        """Locks the table. It does not queue up: who holds would wait behind it to add more."""
        from psycopg.errors import LockNotAvailable

        deadline = time.monotonic() + self._wait_seconds
        while True:
            try:
                with connection.transaction():
                    connection.execute("LOCK TABLE vibe_contents IN EXCLUSIVE MODE NOWAIT")
                return
            except LockNotAvailable as error:
                if time.monotonic() > deadline:
                    raise StoreError(
                        path=self._database.place,
                        detail=f"Others have added content for {self._wait_seconds:g} seconds.",
                        remedy="Try again when they have ended.",
                    ) from error
                time.sleep(_PAUSE_SECONDS)

    def measure_age_seconds(self, content_id: str) -> float:
        """Returns how long ago the content was last added."""
        (added,) = self._access(content_id, "SELECT added FROM vibe_contents WHERE id = %s")
        return float((access_now() - added).total_seconds())

    def remove(self, content_id: str) -> None:
        """Removes the content."""
        with self._database.transact() as connection:
            row = (ensure_content_id(content_id),)
            connection.execute("DELETE FROM vibe_contents WHERE id = %s", row)

    def _access(self, content_id: str, question: Any) -> tuple[Any, ...]:
        with self._database.transact(reading=True) as connection:
            row: tuple[Any, ...] | None = connection.execute(
                question, (ensure_content_id(content_id),)
            ).fetchone()
        if row is None:
            raise StoreError(
                path=self._place(content_id),
                detail=f"There is no content {content_id} in the store.",
            )
        return row

    def _place(self, content_id: str) -> str:
        return f"{self._database.place} content {content_id}"


def _mend(text: Any) -> Any:
    """Half a character in a name must not keep the data themselves from being stored."""
    return text and text.encode(errors="replace").decode()
