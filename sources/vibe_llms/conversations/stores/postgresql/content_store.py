"""Content store in a table, by the SHA-256 of the data; the bytes may be in a content backend."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.conversations.canister_media import examine_content
from vibe_llms.conversations.stores.content_backends import MARKER, ContentBackend
from vibe_llms.conversations.stores.content_urls import produce_backend
from vibe_llms.conversations.stores.identities import ensure_content_id
from vibe_llms.conversations.stores.interfaces import ContentMetadata, LeftBytes
from vibe_llms.conversations.stores.postgresql.database import Database
from vibe_llms.exceptions import CorruptionError, Finding, StoreError, StoreUnavailableError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.logs.locks import WAIT_SECONDS
from vibe_llms.messages.contents import compute_content_id
from vibe_llms.messages.identities import access_now

_PAUSE_SECONDS = 0.05
MOVE_LOCK: Final = 0x6D6F7665
"""Key of the advisory lock that a process holds while it moves content."""
_SERVER_QUERY: Final = (
    "SELECT s.system_identifier, d.oid FROM pg_control_system() s, pg_database d"
    " WHERE d.datname = current_database()"
)
_IS_COMPLETE = "(data IS NOT NULL OR size IS NOT NULL)"
_INSERT = """
INSERT INTO vibe_contents (id, about, created, added, data, place)
VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET added = excluded.added
"""


class _About(msgspec.Struct):
    mime_type: str
    name: str | None = None


@define(eq=False)
class PostgresqlContents:
    """Content store in a database; see :class:`..interfaces.ContentStore`.

    A writer holds a shared lock of the table until its commit; a garbage collection holds an
    exclusive lock.

    Args:
        backend: Backend for the bytes of new content; ``None`` for the table. Existing content is
            read from its current backend.
    """

    _database: Database
    _backend: ContentBackend | None = None
    _wait_seconds: float = WAIT_SECONDS
    _marks: dict[str, str] = attrs.field(factory=dict, init=False)

    def add(self, data: bytes, *, mime_type: str, name: str | None = None) -> str:
        """Store the data and return their id."""
        # For content in the database, the transaction that adds it holds the lock.
        with nullcontext() if self._backend is None else self.hold():
            return self.add_while_locked(data, mime_type=mime_type, name=name)

    def add_while_locked(self, data: bytes, *, mime_type: str, name: str | None = None) -> str:
        """Store the data and return their id; for a backend, the caller holds the shared lock."""
        content_id = compute_content_id(data)
        if self._renew(content_id, len(data)):
            return content_id
        about = msgspec.json.encode(
            _About(_replace_surrogates(mime_type), _replace_surrogates(name))
        ).decode()
        now = access_now()
        row = (content_id, about, now, now)
        if self._backend is None:
            with self._database.transact() as connection:
                # `place` stays: incomplete data may be there, which are removed later.
                renewal = ", data = excluded.data, size = NULL"
                connection.execute(f"{_INSERT}{renewal}", (*row, data, None))
            return content_id
        # Record the backend first: if this process dies before the row is complete, the next
        # garbage collection finds the bytes.
        address = self._backend.address
        self._require_own(address)
        with self._database.begin() as connection:
            connection.execute(_INSERT, (*row, None, address))
        self._backend.put(content_id, data, mime_type=mime_type, name=name)
        with self._database.begin() as connection:
            # Set the backend again: a concurrent writer of these data may have recorded another
            # backend.
            connection.execute(
                "UPDATE vibe_contents SET data = NULL, size = %s, place = %s WHERE id = %s",
                (len(data), address, content_id),
            )
        return content_id

    @property
    def address(self) -> str:
        """URL of the backend for new content; empty for the table."""
        return "" if self._backend is None else self._backend.address

    def bring(self, content_id: str) -> None:
        """Move content to the backend for new content; verify it before removing the original.

        Raises:
            StoreError: The content cannot be read or written; the content stays in its old backend.
        """
        with self._hold_as_mover():
            data, old, about = self._access(content_id, "data, place, about")
            is_in_table, belongs_in_table = data is not None, self._backend is None
            if (old or "") == self.address and is_in_table == belongs_in_table:
                return
            content = self.read(content_id)
            if self._backend is not None:
                self._require_own(self.address)
            if data is not None and old is not None:
                # Remove leftovers of a crash before the upload, as they may be in the new backend.
                self._remove_from(old, content_id)
                old = None
            if self._backend is None:
                change = "data = %s, size = NULL"  # `place` stays until the old bytes are removed
                self._change(content_id, change, content)
            else:
                metadata = msgspec.json.decode(about, type=_About)
                if self._backend.has(content_id, len(content)):
                    old = None  # the original may be this object, under another URL of the backend
                self._backend.put(
                    content_id, content, mime_type=metadata.mime_type, name=metadata.name
                )
                self._backend.read(content_id)
                change = "data = NULL, size = %s, place = %s"
                self._change(content_id, change, len(content), self.address)
            if old is not None:
                self._remove_from(old, content_id)
            if self._backend is None:
                with self._database.begin() as connection:
                    # Only if no other process has put the content there again in the meantime.
                    cleared = "UPDATE vibe_contents SET place = NULL WHERE id = %s"
                    connection.execute(f"{cleared} AND data IS NOT NULL", (content_id,))

    @contextmanager
    def _hold_as_mover(self) -> Iterator[None]:
        """Hold like :meth:`hold`, and exclude other moves, which may target another backend."""
        with self.hold(), self._database.begin() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (MOVE_LOCK,))
            yield

    def _change(self, content_id: str, change: str, *values: Any) -> None:
        statement: Any = f"UPDATE vibe_contents SET {change} WHERE id = %s"
        with self._database.begin() as connection:
            connection.execute(statement, (*values, content_id))

    def _renew(self, content_id: str, size: int) -> bool:
        """Restart the age of content; return whether it exists."""
        # Existing content need not be sent again. For a backend, this is a separate transaction, as
        # the caller's transaction would keep the row locked until its end.
        database = self._database
        with database.transact() if self._backend is None else database.begin() as connection:
            row = connection.execute(
                "UPDATE vibe_contents SET added = %s WHERE id = %s"
                " AND coalesce(octet_length(data), size) = %s"
                " RETURNING CASE WHEN data IS NULL THEN place END",
                (access_now(), content_id, size),
            ).fetchone()
        if row is None:
            return False
        return row[0] is None or produce_backend(row[0]).has(content_id, size)

    def read(self, content_id: str) -> bytes:
        """Return the data, verified against their id."""
        data, location = self._access(content_id, "data, place")
        if data is None:
            return produce_backend(location).read(content_id)
        if compute_content_id(data) != content_id:
            raise CorruptionError(
                path=self._name(content_id),
                detail="The data do not match the id.",
                remedy="Restore the row from a backup.",
            )
        return bytes(data)

    def access_metadata(self, content_id: str) -> ContentMetadata:
        """Return the metadata of the content."""
        about, size, created = self._access(
            content_id, "about, coalesce(octet_length(data), size), created"
        )
        try:
            metadata = msgspec.json.decode(about, type=_About)
        except msgspec.MsgspecError as error:
            detail = f"Cannot read the metadata of the content: {error}."
            raise CorruptionError(path=self._name(content_id), detail=detail) from error
        return ContentMetadata(
            id=content_id,
            mime_type=metadata.mime_type,
            size_bytes=size,
            created=created,
            name=metadata.name,
        )

    def contains(self, content_id: str) -> bool:
        """Return whether the content exists, without verifying it."""
        query = f"SELECT 1 FROM vibe_contents WHERE id = %s AND {_IS_COMPLETE}"
        with self._database.transact(reading=True) as connection:
            found = connection.execute(query, (ensure_content_id(content_id),)).fetchone()
        return found is not None

    def survey(self) -> Iterator[str]:
        """Yield the ids of all content."""
        with self._database.transact(reading=True) as connection:
            rows = connection.execute(
                f"SELECT id FROM vibe_contents WHERE {_IS_COMPLETE}"
            ).fetchall()
        return iter([each for (each,) in rows])

    def examine(self, content_id: str) -> tuple[Finding, ...]:
        """Verify data and metadata against the id; return the errors."""
        return examine_content(self, content_id)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Prevent garbage collection inside the block."""
        # A separate connection, so that content added inside the block stays if the block fails.
        with self._database.begin() as connection:
            connection.execute("LOCK TABLE vibe_contents IN ROW EXCLUSIVE MODE")
            yield

    @contextmanager
    def hold_alone(self) -> Iterator[None]:
        """Lock exclusively: no other caller holds or adds content; removals commit at the end."""
        with self._database.transact() as connection:
            self._lock(connection)
            self._sweep(connection)
            yield

    def _sweep(self, connection: Any) -> None:
        """Remove incomplete uploads; the caller has the exclusive lock."""
        rows = connection.execute(f"SELECT id, place FROM vibe_contents WHERE NOT ({_IS_COMPLETE})")
        # An unreachable backend must not prevent a garbage collection in other backends.
        with suppress(StoreError):
            if self._backend is not None:
                self._backend.sweep()
            for content_id, location in rows.fetchall():
                self._remove_from(location, content_id)
                connection.execute("DELETE FROM vibe_contents WHERE id = %s", (content_id,))

    def _lock(self, connection: Any) -> None:
        """Lock the table without queuing, as processes that hold it and add more would wait."""
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
                        path=self._database.location,
                        detail=f"Other processes kept adding content for {self._wait_seconds:g} "
                        "seconds.",
                        remedy="Try again when they are done.",
                    ) from error
                time.sleep(_PAUSE_SECONDS)

    def measure_age_seconds(self, content_id: str) -> float:
        """Return the time since the content was last added, in seconds."""
        (added,) = self._access(content_id, "added")
        return float((access_now() - added).total_seconds())

    def remove(self, content_id: str) -> None:
        """Remove the content: from a backend at once, and its row when the transaction ends.

        After a crash in between, the next garbage collection removes the row.
        """
        key = (ensure_content_id(content_id),)
        with self._database.transact() as connection:
            statement = "DELETE FROM vibe_contents WHERE id = %s RETURNING place"
            row = connection.execute(statement, key).fetchone()
            if row is not None and row[0] is not None:
                self._remove_from(row[0], content_id)

    def _remove_from(self, address: str, content_id: str) -> None:
        """Remove bytes from a backend, unless the backend belongs to another database."""
        if self._owns(address):
            produce_backend(address).remove(content_id)

    def _require_own(self, address: str) -> None:
        if not self._owns(address):
            raise StoreError(
                path=address,
                detail=f"{address} holds the content of another database, according to {MARKER} in "
                "it.",
                remedy="Give each database its own folder or prefix. If the other database is "
                f"statement, or this one replaces it, remove {MARKER}.",
            )

    def _owns(self, address: str) -> bool:
        return self._access_mark(address).partition(" ")[0] == self._owner

    def _access_mark(self, address: str) -> str:
        """Return the mark of a backend, which identifies it under any URL."""
        mark = self._marks.get(address)
        if mark is None:
            new_mark = f"{self._owner} {uuid.uuid4().hex}"
            mark = self._marks[address] = produce_backend(address).claim(new_mark)
        return mark

    @cached_property
    def _owner(self) -> str:
        """Identity of this database in backends: the database's id and its location.

        The location distinguishes a copy of the database, which has the id of the original, but
        does not know which content the original needs. It is the same for a copy of the server's
        files, and for a standby server.
        """
        with self._database.begin(reading=True) as connection:
            (owner,) = connection.execute("SELECT owner FROM vibe_format").fetchone() or ("",)
        try:
            with self._database.begin(reading=True) as connection:
                ((server, number),) = connection.execute(_SERVER_QUERY)
        except StoreUnavailableError:
            raise
        except StoreError:  # a service that does not report it
            return str(owner)
        return f"{owner}@{server}/{number}"

    def survey_strays(self, *, grace_seconds: float) -> Iterator[LeftBytes]:
        """Yield stray content: bytes in backends of this database that no row refers to."""
        metadata: dict[str, set[str]] = {}
        backends: dict[str, str] = {}  # each once, by its mark, under any URL
        with self._database.transact(reading=True) as connection:
            rows = connection.execute(
                "SELECT place, array_agg(id) FROM vibe_contents WHERE place IS NOT NULL"
                " GROUP BY place"
            ).fetchall()
        for address, ids in [*rows, *([(self.address, [])] if self.address else [])]:
            # Only read the mark: a backend without one may belong to another database.
            mark = produce_backend(address).read_mark()
            if mark.partition(" ")[0] == self._owner:
                backends.setdefault(mark, address)
                metadata.setdefault(mark, set()).update(ids)
        for mark, address in backends.items():
            for each in produce_backend(address).survey():
                if each.content_id not in metadata[mark] and each.age_seconds >= grace_seconds:
                    yield LeftBytes(address, each.content_id, each.size_bytes)

    def remove_stray(self, stray: LeftBytes) -> None:
        """Remove stray content."""
        self._remove_from(stray.location, stray.content_id)

    def _access(self, content_id: str, columns: str) -> tuple[Any, ...]:
        query: Any = f"SELECT {columns} FROM vibe_contents WHERE id = %s AND {_IS_COMPLETE}"
        with self._database.transact(reading=True) as connection:
            # Binary, as bytes would be sent as hexadecimal digits otherwise.
            row: tuple[Any, ...] | None = connection.execute(
                query, (ensure_content_id(content_id),), binary=True
            ).fetchone()
        if row is None:
            raise StoreError(
                path=self._name(content_id),
                detail=f"Content {content_id} is not in the store.",
            )
        return row

    def _name(self, content_id: str) -> str:
        return f"{self._database.location} content {content_id}"


def _replace_surrogates(text: Any) -> Any:
    """Replace lone surrogates in a name, which must not prevent storing the data."""
    return text and text.encode(errors="replace").decode()
