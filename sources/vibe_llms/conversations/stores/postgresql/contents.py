"""Content in a table, each under the SHA-256 of its data, or elsewhere with its place there."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.conversations.contents import examine_content
from vibe_llms.conversations.stores.interfaces import ContentMetadata, LeftBytes
from vibe_llms.conversations.stores.naming import ensure_content_id
from vibe_llms.conversations.stores.places import MARKER, ContentPlace, produce_place
from vibe_llms.conversations.stores.postgresql.database import Database
from vibe_llms.exceptions import CorruptionError, Finding, StoreError, StoreUnavailableError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.logs.locks import WAIT_SECONDS
from vibe_llms.messages.contents import compute_content_id
from vibe_llms.messages.identities import access_now

_PAUSE_SECONDS = 0.05
MOVING: Final = 0x6D6F7665
"""The lock of who moves content."""
_WHERE: Final = (
    "SELECT s.system_identifier, d.oid FROM pg_control_system() s, pg_database d"
    " WHERE d.datname = current_database()"
)
_WHOLE = "(data IS NOT NULL OR size IS NOT NULL)"
_INSERT = """
INSERT INTO vibe_contents (id, about, created, added, data, place)
VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET added = excluded.added
"""


class _About(msgspec.Struct):
    mime_type: str
    name: str | None = None


@define(eq=False)
class PostgresqlContents:
    """Keeps content in a database; see :class:`..interfaces.ContentStore`.

    Whoever adds has a lock of the table that others may have, too, until it is committed; who
    collects has one that keeps these out.

    Args:
        place: Where the bytes of new content go; ``None`` for the table. What is there already is
            read from where it is.
    """

    _database: Database
    _place: ContentPlace | None = None
    _wait_seconds: float = WAIT_SECONDS
    _marks: dict[str, str] = attrs.field(factory=dict, init=False)

    def add(self, data: bytes, *, mime_type: str, name: str | None = None) -> str:
        """Keeps the data and returns their id."""
        # What lies in the database is held by the transaction that brings it.
        with nullcontext() if self._place is None else self.hold():
            return self.place(data, mime_type=mime_type, name=name)

    def place(self, data: bytes, *, mime_type: str, name: str | None = None) -> str:
        """Keeps the data and returns their id; where they go elsewhere, the caller holds on."""
        content_id = compute_content_id(data)
        if self._renew(content_id, len(data)):
            return content_id
        about = msgspec.json.encode(_About(_mend(mime_type), _mend(name))).decode()
        now = access_now()
        row = (content_id, about, now, now)
        if self._place is None:
            with self._database.transact() as connection:
                # Where something of it may be elsewhere, its place stays, and is cleared with it.
                renewal = ", data = excluded.data, size = NULL"
                connection.execute(f"{_INSERT}{renewal}", (*row, data, None))
            return content_id
        # First it is said where they are going to be: what is put, and was not spoken of when its
        # sender died, is found by the next collection.
        address = self._place.address
        self._require_own(address)
        with self._database.begun() as connection:
            connection.execute(_INSERT, (*row, None, address))
        self._place.put(content_id, data, mime_type=mime_type, name=name)
        with self._database.begun() as connection:
            # With the place: another who adds the same may have named his meanwhile.
            connection.execute(
                "UPDATE vibe_contents SET data = NULL, size = %s, place = %s WHERE id = %s",
                (len(data), address, content_id),
            )
        return content_id

    @property
    def address(self) -> str:
        """Where new content goes: the URL of a place, empty for the table."""
        return "" if self._place is None else self._place.address

    def bring(self, content_id: str) -> None:
        """Moves content to where new content goes; it is proven there before it leaves.

        Raises:
            StoreError: It cannot be read, or not be put; then it is where it was.
        """
        with self._hold_as_mover():
            data, old, about = self._access(content_id, "data, place, about")
            if (old or "") == self.address and (data is None) == bool(self._place):
                return
            content = self.read(content_id)
            if self._place is not None:
                self._require_own(self.address)
            if data is not None and old is not None:
                # What a crash left there goes before anything is put: it may be the same place.
                self._remove_from(old, content_id)
                old = None
            if self._place is None:
                change = "data = %s, size = NULL"  # its place stays until it is cleared
                self._change(content_id, change, content)
            else:
                known = msgspec.json.decode(about, type=_About)
                if self._place.has(content_id, len(content)):
                    old = None  # what is to leave may be just this, under another name of one place
                self._place.put(content_id, content, mime_type=known.mime_type, name=known.name)
                self._place.read(content_id)
                change = "data = NULL, size = %s, place = %s"
                self._change(content_id, change, len(content), self.address)
            if old is not None:
                self._remove_from(old, content_id)
            if self._place is None:
                with self._database.begun() as connection:
                    # Unless somebody who had found nothing there has put it there again.
                    cleared = "UPDATE vibe_contents SET place = NULL WHERE id = %s"
                    connection.execute(f"{cleared} AND data IS NOT NULL", (content_id,))

    @contextmanager
    def _hold_as_mover(self) -> Iterator[None]:
        """As :meth:`hold`, and alone among those who move: they may want it in two places."""
        with self.hold(), self._database.begun() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (MOVING,))
            yield

    def _change(self, content_id: str, change: str, *values: Any) -> None:
        statement: Any = f"UPDATE vibe_contents SET {change} WHERE id = %s"
        with self._database.begun() as connection:
            connection.execute(statement, (*values, content_id))

    def _renew(self, content_id: str, size: int) -> bool:
        """Lets the age of content that is there count from now; tells whether it is."""
        # Looked for first: what is there need not be sent again. Not in the caller's transaction
        # where it goes elsewhere: the lock of the row would be in our own way.
        database = self._database
        with database.transact() if self._place is None else database.begun() as connection:
            row = connection.execute(
                "UPDATE vibe_contents SET added = %s WHERE id = %s"
                " AND coalesce(octet_length(data), size) = %s"
                " RETURNING CASE WHEN data IS NULL THEN place END",
                (access_now(), content_id, size),
            ).fetchone()
        if row is None:
            return False
        return row[0] is None or produce_place(row[0]).has(content_id, size)

    def read(self, content_id: str) -> bytes:
        """Returns the data, proven against their id."""
        data, place = self._access(content_id, "data, place")
        if data is None:
            return produce_place(place).read(content_id)
        if compute_content_id(data) != content_id:
            raise CorruptionError(
                path=self._name(content_id),
                detail="The data do not match the id.",
                remedy="Restore the row from a backup.",
            )
        return bytes(data)

    def access_metadata(self, content_id: str) -> ContentMetadata:
        """Returns what is known about the content."""
        about, size, created = self._access(
            content_id, "about, coalesce(octet_length(data), size), created"
        )
        try:
            known = msgspec.json.decode(about, type=_About)
        except msgspec.MsgspecError as error:
            detail = f"Cannot read the metadata of the content: {error}."
            raise CorruptionError(path=self._name(content_id), detail=detail) from error
        return ContentMetadata(
            id=content_id,
            mime_type=known.mime_type,
            size_bytes=size,
            created=created,
            name=known.name,
        )

    def contains(self, content_id: str) -> bool:
        """Tells whether the content is there, without proving it."""
        question = f"SELECT 1 FROM vibe_contents WHERE id = %s AND {_WHOLE}"
        with self._database.transact(reading=True) as connection:
            found = connection.execute(question, (ensure_content_id(content_id),)).fetchone()
        return found is not None

    def survey(self) -> Iterator[str]:
        """Yields the ids of all content."""
        with self._database.transact(reading=True) as connection:
            rows = connection.execute(f"SELECT id FROM vibe_contents WHERE {_WHOLE}").fetchall()
        return iter([each for (each,) in rows])

    def examine(self, content_id: str) -> tuple[Finding, ...]:
        """Proves data and metadata against the id; returns what is wrong."""
        return examine_content(self, content_id)

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
            self._sweep(connection)
            yield

    def _sweep(self, connection: Any) -> None:
        """Removes what was not put to its end: nobody else is at work now."""
        rows = connection.execute(f"SELECT id, place FROM vibe_contents WHERE NOT ({_WHOLE})")
        # A place that is out of reach keeps nobody from collecting what is elsewhere.
        with suppress(StoreError):
            if self._place is not None:
                self._place.sweep()
            for content_id, place in rows.fetchall():
                self._remove_from(place, content_id)
                connection.execute("DELETE FROM vibe_contents WHERE id = %s", (content_id,))

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
                        detail=f"Other processes kept adding content for {self._wait_seconds:g} "
                        "seconds.",
                        remedy="Try again when they are done.",
                    ) from error
                time.sleep(_PAUSE_SECONDS)

    def measure_age_seconds(self, content_id: str) -> float:
        """Returns how long ago the content was last added."""
        (added,) = self._access(content_id, "added")
        return float((access_now() - added).total_seconds())

    def remove(self, content_id: str) -> None:
        """Removes the content: elsewhere at once, here when the transaction ends.

        Where the two are torn apart, the row is found, and removed, by the next collection.
        """
        key = (ensure_content_id(content_id),)
        with self._database.transact() as connection:
            gone = "DELETE FROM vibe_contents WHERE id = %s RETURNING place"
            row = connection.execute(gone, key).fetchone()
            if row is not None and row[0] is not None:
                self._remove_from(row[0], content_id)

    def _remove_from(self, address: str, content_id: str) -> None:
        """Removes bytes from a place, unless it is another database's, which may need them."""
        if self._owns(address):
            produce_place(address).remove(content_id)

    def _require_own(self, address: str) -> None:
        if not self._owns(address):
            raise StoreError(
                path=address,
                detail=f"{address} holds the content of another database, according to {MARKER} in "
                "it.",
                remedy="Give each database its own folder or prefix. If the other database is "
                f"gone, or this one replaces it, remove {MARKER}.",
            )

    def _owns(self, address: str) -> bool:
        return self._access_mark(address).partition(" ")[0] == self._owner

    def _access_mark(self, address: str) -> str:
        """Returns the mark of a place, by which it is known under whatever URL."""
        mark = self._marks.get(address)
        if mark is None:
            given = f"{self._owner} {uuid.uuid4().hex}"
            mark = self._marks[address] = produce_place(address).claim(given)
        return mark

    @cached_property
    def _owner(self) -> str:
        """How places know this database: by its own id, and by where it is.

        For a copy has the same id, and nobody tells it what the other one still needs. One that was
        made by copying the server's files, and a server that stands for another, are in the same
        place as far as anybody can tell.
        """
        with self._database.begun(reading=True) as connection:
            (owner,) = connection.execute("SELECT owner FROM vibe_format").fetchone() or ("",)
        try:
            with self._database.begun(reading=True) as connection:
                ((server, number),) = connection.execute(_WHERE)
        except StoreUnavailableError:
            raise
        except StoreError:  # a service that does not tell
            return str(owner)
        return f"{owner}@{server}/{number}"

    def survey_strays(self, *, grace_seconds: float) -> Iterator[LeftBytes]:
        """Yields what lies in places of this database, and no row of it names."""
        known: dict[str, set[str]] = {}
        places: dict[str, str] = {}  # each once, by its mark, whatever its URLs
        with self._database.transact(reading=True) as connection:
            rows = connection.execute(
                "SELECT place, array_agg(id) FROM vibe_contents WHERE place IS NOT NULL"
                " GROUP BY place"
            ).fetchall()
        for address, ids in [*rows, *([(self.address, [])] if self.address else [])]:
            # Who only looks marks nothing: a place without a mark may be anybody's.
            mark = produce_place(address).read_mark()
            if mark.partition(" ")[0] == self._owner:
                places.setdefault(mark, address)
                known.setdefault(mark, set()).update(ids)
        for mark, address in places.items():
            for each in produce_place(address).survey():
                if each.content_id not in known[mark] and each.age_seconds >= grace_seconds:
                    yield LeftBytes(address, each.content_id, each.size_bytes)

    def remove_stray(self, stray: LeftBytes) -> None:
        """Removes such bytes."""
        self._remove_from(stray.place, stray.content_id)

    def _access(self, content_id: str, columns: str) -> tuple[Any, ...]:
        question: Any = f"SELECT {columns} FROM vibe_contents WHERE id = %s AND {_WHOLE}"
        with self._database.transact(reading=True) as connection:
            # As text, data come as digits, which are held beside what is made of them.
            row: tuple[Any, ...] | None = connection.execute(
                question, (ensure_content_id(content_id),), binary=True
            ).fetchone()
        if row is None:
            raise StoreError(
                path=self._name(content_id),
                detail=f"Content {content_id} is not in the store.",
            )
        return row

    def _name(self, content_id: str) -> str:
        return f"{self._database.place} content {content_id}"


def _mend(text: Any) -> Any:
    """Half a character in a name must not keep the data themselves from being stored."""
    return text and text.encode(errors="replace").decode()
