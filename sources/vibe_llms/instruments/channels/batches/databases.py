"""The databases in which batches are kept, where more than one process works at them.

SQLite and PostgreSQL are spoken to in the same words: statements with ``?`` for values, and what
one of them alone would understand stands here.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from vibe_llms.configuration.definitions import is_postgresql_url
from vibe_llms.exceptions import StoreError
from vibe_llms.instruments.channels.batches.tables import TABLES

if TYPE_CHECKING:
    import psycopg

    from vibe_llms.conversations.stores.postgresql.database import Database

_SQLITE: Final = "sqlite:///"
_BUSY_SECONDS: Final = 30.0
_ROWS: Final = 256
"""How many rows go through one statement of SQLite, whose values have a bound (32,766)."""
_LOCK: Final = 0x76696262
"""Two processes that find no tables make them one after the other."""

_Row = TypeVar("_Row", bound=msgspec.Struct)

Columns: TypeAlias = Mapping[str, str]


class Transaction(Protocol):
    """Statements that are kept all together, or none of them."""

    def fetch(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Performs a statement; returns its rows."""

    def change(self, statement: str, *values: Any) -> int:
        """Performs a statement; returns how many rows it has changed."""

    def fetch_all(self, kind: type[_Row], statement: str, *values: Any) -> list[_Row]:
        """Performs a query of many rows, whose texts have no character 0.

        Args:
            kind: What a row becomes: a ``Struct`` that is like an array, of as many fields as the
                query has columns. Python's collector does well not to follow it: it would look
                through all that lives whenever a few hundred rows were read.
        """

    def change_all(
        self, statement: str, columns: Columns, given: Sequence[Sequence[Any]], *values: Any
    ) -> int:
        """Performs one statement over many rows; returns how many were changed.

        Args:
            statement: With ``{rows}`` in the place of a table, before all other values.
            columns: The names of that table, and their types in PostgreSQL.
            given: The values of each column.
        """


class BatchDatabase(Protocol):
    """A database with the tables of batches. Any thread may use it."""

    @property
    def place(self) -> str:
        """Its URL as it may be shown."""

    @property
    def now(self) -> str:
        """What says the moment in its statements, in seconds, by its own clock."""

    def transact(self, *, reading: bool = False) -> AbstractContextManager[Transaction]:
        """Keeps what is done within, or nothing.

        Args:
            reading: Nothing is to be changed.

        Raises:
            StoreError: It is out of reach, or refuses.
        """

    def close(self) -> None:
        """Closes its connections."""


def open_database(url: str) -> BatchDatabase:
    """Opens the database that a URL names; it is connected to when it is first used."""
    if is_postgresql_url(url):
        return PostgresqlBatches(url)
    return SqliteBatches(Path(url.removeprefix(_SQLITE)))


def check_folder(path: Path) -> None:
    """Refuses a file whose folder is not there: a name that was mistyped makes none.

    Raises:
        StoreError: It is not.
    """
    if not path.absolute().parent.is_dir():
        raise StoreError(
            path=str(path),
            detail=f"{_SQLITE}{path}: there is no folder {path.parent}.",
            remedy="Make it, or name a file in one that is there.",
        )


class SqliteBatches:
    """A file of SQLite, over one connection.

    Args:
        path: The file. It is made, in a folder that is there.
    """

    now = "(julianday('now') - 2440587.5) * 86400.0"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._door = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @property
    def place(self) -> str:
        """The URL of the file."""
        return f"{_SQLITE}{self._path}"

    @contextmanager
    def transact(self, *, reading: bool = False) -> Iterator[Transaction]:
        """Keeps what is done within, or nothing. Raises StoreError."""
        with self._door:
            try:
                connection = self._connection or self._open()
                connection.execute("BEGIN" if reading else "BEGIN IMMEDIATE")
                try:
                    yield _SqliteTransaction(connection)
                    connection.execute("COMMIT")
                finally:
                    # A commit may fail and leave it open, and a full disk has ended it already.
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
            except (sqlite3.Error, OSError) as error:
                raise StoreError(
                    path=self.place,
                    detail=f"{self.place}: {error}.",
                    remedy="See that the file can be written and is one of a runner.",
                ) from error

    def _open(self) -> sqlite3.Connection:
        check_folder(self._path)
        connection = sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        # What was committed survives the death of any process; the loss of power takes what was
        # written since the last checkpoint, whose items are asked again.
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN IMMEDIATE")
        for statement in TABLES.split(";"):
            connection.execute(statement)
        connection.execute("COMMIT")
        self._connection = connection
        return connection

    def close(self) -> None:
        """Closes the file."""
        with self._door:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class _SqliteTransaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def fetch(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def change(self, statement: str, *values: Any) -> int:
        return self._connection.execute(statement, values).rowcount

    # The module lets go of the interpreter at each row and statement, and where the event loop is
    # busy it is five milliseconds until it has it again: so rows are read as one of JSON, and go
    # in by a few statements, each of many values, which takes a third of JSON's time.

    def fetch_all(self, kind: type[_Row], statement: str, *values: Any) -> list[_Row]:
        named = self._connection.execute(f"SELECT * FROM ({statement}) LIMIT 0", values)
        columns = ", ".join(column[0] for column in named.description)
        try:
            ((told,),) = self.fetch(
                f"SELECT json_group_array(json_array({columns})) FROM ({statement})", *values
            )
        except sqlite3.DataError:  # one text holds a billion bytes; by themselves rows may fit
            return [kind(*row) for row in self.fetch(statement, *values)]
        return msgspec.json.decode(told, type=list[kind])  # type: ignore[valid-type]

    def change_all(
        self, statement: str, columns: Columns, given: Sequence[Sequence[Any]], *values: Any
    ) -> int:
        count, first = len(given[0]), 0
        before = self._connection.total_changes  # no count is told of what begins with others
        while first < count:
            size = min(_ROWS, 1 << ((count - first).bit_length() - 1))
            table = _lay_out(tuple(columns), size)
            several = zip(*(column[first : first + size] for column in given), strict=True)
            told = [*chain.from_iterable(several), *values]
            self._connection.execute(statement.format(rows=table), told)
            first += size
        return self._connection.total_changes - before


@lru_cache(64)
def _lay_out(columns: tuple[str, ...], size: int) -> str:
    """Writes a table of values. Of few sizes, so that the module has its statements ready."""
    row = f"({', '.join('?' for _ in columns)})"
    named = ", ".join(f"column{place} AS {name}" for place, name in enumerate(columns, 1))
    return f"(SELECT {named} FROM (VALUES {', '.join([row] * size)}))"


class PostgresqlBatches:
    """A database of PostgreSQL; the same one may have conversations.

    Args:
        url: As PostgreSQL's own tools take it.
    """

    now = "extract(epoch FROM clock_timestamp())::double precision"

    def __init__(self, url: str) -> None:
        from vibe_llms.conversations.stores.postgresql.database import Database

        self._database: Database = Database(url)
        self._door = threading.Lock()
        self._is_prepared = False

    @property
    def place(self) -> str:
        """Its URL, without a password."""
        return self._database.place

    @contextmanager
    def transact(self, *, reading: bool = False) -> Iterator[Transaction]:
        """Keeps what is done within, or nothing. Raises StoreError."""
        if not self._is_prepared:
            self._prepare()
        with self._database.transact(reading=reading) as connection:
            yield _PostgresqlTransaction(connection)

    def _prepare(self) -> None:
        with self._door:
            if self._is_prepared:
                return
            with self._database.transact() as connection:
                # Held until the transaction ends: what another has made is seen after that.
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                connection.execute(TABLES)
            self._is_prepared = True

    def close(self) -> None:
        """Closes what is open and idle."""
        self._database.close()


class _PostgresqlTransaction:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def fetch(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(_translate(statement), values).fetchall()

    def change(self, statement: str, *values: Any) -> int:
        return self._connection.execute(_translate(statement), values).rowcount

    def fetch_all(self, kind: type[_Row], statement: str, *values: Any) -> list[_Row]:
        return [kind(*row) for row in self.fetch(statement, *values)]

    def change_all(
        self, statement: str, columns: Columns, given: Sequence[Sequence[Any]], *values: Any
    ) -> int:
        arrays = ", ".join(f"?::{kind}[]" for kind in columns.values())
        table = f"(SELECT * FROM unnest({arrays}) AS given ({', '.join(columns)}))"
        return self.change(statement.format(rows=table), *map(list, given), *values)


def _translate(statement: str) -> str:
    return statement.replace("?", "%s")
