"""Batch databases that several processes share.

SQLite and PostgreSQL receive the same statements, with ``?`` for values.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from vibe_llms.batches.tables import EARLIER, TABLE, TABLES
from vibe_llms.configuration.definitions import is_postgresql_url
from vibe_llms.exceptions import StoreError

if TYPE_CHECKING:
    import psycopg

    from vibe_llms.conversations.stores.postgresql.database import Database

_SQLITE: Final = "sqlite:///"
_BUSY_SECONDS: Final = 30.0
_LOCK: Final = 0x76696262
"""Key of the advisory lock under which a process creates the tables."""


class Transaction(Protocol):
    """Statements of one transaction."""

    def fetch(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Execute a statement; return its rows."""

    def change(self, statement: str, *values: Any) -> int:
        """Execute a statement; return the number of changed rows."""


class BatchDatabase(Protocol):
    """A database with the tables of batches. Any thread may use it."""

    @property
    def location(self) -> str:
        """URL for display."""

    @property
    def now(self) -> str:
        """SQL expression for the current time, in seconds, by the database's clock."""

    def transact(self, *, reading: bool = False) -> AbstractContextManager[Transaction]:
        """Run a transaction: commit at the end, or roll back on an error.

        Args:
            reading: Whether the transaction is read-only.

        Raises:
            StoreError: The database is unreachable, or rejects a statement.
        """

    def close(self) -> None:
        """Close the connections."""


def open_database(url: str, *, creates: bool = True) -> BatchDatabase:
    """Open the database of a URL; it connects at the first use.

    Args:
        creates: Whether to create missing tables instead of refusing.
    """
    if is_postgresql_url(url):
        return PostgresqlBatches(url, creates=creates)
    return SqliteBatches(Path(url.removeprefix(_SQLITE)), creates=creates)


def check_database(database: BatchDatabase) -> None:
    """Connect, and create missing tables. Raises StoreError."""
    with database.transact(reading=True):
        pass


def check_folder(path: Path) -> None:
    """Refuse a file whose folder does not exist.

    Raises:
        StoreError: The folder does not exist.
    """
    if not path.absolute().parent.is_dir():
        raise StoreError(
            path=str(path),
            detail=f"{_SQLITE}{path}: the folder {path.parent} does not exist.",
            remedy="Create it, or name a file in an existing folder.",
        )


class SqliteBatches:
    """SQLite file, over one connection.

    Args:
        path: The file. A missing file is created; the folder must exist.
        creates: Whether to create missing tables.
    """

    now = "(julianday('now') - 2440587.5) * 86400.0"

    def __init__(self, path: Path, *, creates: bool = True) -> None:
        self._path = path
        self._creates = creates
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @property
    def location(self) -> str:
        """The URL of the file."""
        return f"{_SQLITE}{self._path}"

    @contextmanager
    def transact(self, *, reading: bool = False) -> Iterator[Transaction]:
        """Run a transaction: commit at the end, or roll back on an error. Raises StoreError."""
        with self._lock:
            try:
                connection = self._connection or self._open()
                connection.execute("BEGIN" if reading else "BEGIN IMMEDIATE")
                try:
                    yield _SqliteTransaction(connection)
                    connection.execute("COMMIT")
                finally:
                    # A failed commit may leave the transaction open; a full disk has already ended
                    # it.
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
            except StoreError:  # a subclass of OSError
                raise
            except (sqlite3.Error, OSError) as error:
                raise StoreError(
                    path=self.location,
                    detail=f"{self.location}: {error}.",
                    remedy=advise_file(str(error)),
                ) from error

    def _open(self) -> sqlite3.Connection:
        check_folder(self._path)
        connection = sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if not self._creates:
            _check_tables(
                self.location, _has_table(connection, TABLE), _has_table(connection, EARLIER)
            )
        # Commits survive the death of any process. A power failure loses writes since the last
        # checkpoint; their inputs are processed again.
        for pragma in (
            "journal_mode=WAL",
            "synchronous=NORMAL",
            "foreign_keys=ON",
        ):
            connection.execute(f"PRAGMA {pragma}")
        if self._creates:
            connection.execute("BEGIN IMMEDIATE")
            _check_tables(self.location, True, _has_table(connection, EARLIER))
            for statement in TABLES.split(";"):
                connection.execute(statement)
            connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return bool(connection.execute(query, (name,)).fetchall())


class _SqliteTransaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def fetch(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def change(self, statement: str, *values: Any) -> int:
        return self._connection.execute(statement, values).rowcount


class PostgresqlBatches:
    """PostgreSQL database, possibly the database that stores conversations.

    Args:
        url: URL in the syntax of PostgreSQL's own tools.
        creates: Whether to create tables that do not exist.
    """

    now = "extract(epoch FROM clock_timestamp())::double precision"

    def __init__(self, url: str, *, creates: bool = True) -> None:
        from vibe_llms.conversations.stores.postgresql.database import Database

        self._creates = creates
        self._database: Database = Database(url, is_prepared=not creates)
        self._lock = threading.Lock()
        self._is_prepared = False

    @property
    def location(self) -> str:
        """URL without a password."""
        return self._database.location

    @contextmanager
    def transact(self, *, reading: bool = False) -> Iterator[Transaction]:
        """Run a transaction: commit at the end, or roll back on an error. Raises StoreError."""
        if not self._is_prepared:
            self._prepare()
        with self._database.transact(reading=reading) as connection:
            yield _PostgresqlTransaction(connection)

    def _prepare(self) -> None:
        with self._lock:
            if self._is_prepared:
                return
            with self._database.transact(reading=not self._creates) as connection:
                if self._creates:
                    # The lock is held until the transaction ends; after that, tables created by
                    # another process are visible.
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                query = "SELECT to_regclass(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL"
                ((exist, earlier),) = connection.execute(query, (TABLE, EARLIER))
                _check_tables(self.location, self._creates or exist, earlier)
                if self._creates:
                    connection.execute(TABLES)
            self._is_prepared = True

    def close(self) -> None:
        """Close idle connections."""
        self._database.close()


class _PostgresqlTransaction:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def fetch(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(_translate(statement), values).fetchall()

    def change(self, statement: str, *values: Any) -> int:
        return self._connection.execute(_translate(statement), values).rowcount


def _translate(statement: str) -> str:
    return statement.replace("?", "%s")


def advise_file(message: str) -> str:
    """Return the remedy for an error of SQLite."""
    if "is full" in message:
        return "Free space on its disk; its contents are intact."
    return "Check that the file is writable and was created by a runner."


def _check_tables(location: str, exist: bool, has_earlier: bool) -> None:
    """Refuse tables that cannot be used. Raises StoreError."""
    if not exist and not has_earlier:
        raise StoreError(
            path=location,
            detail=f"{location}: no batch has been submitted here.",
            remedy="Name the database that you passed to `vibe batch --runner`.",
        )
    if not has_earlier:
        return
    raise StoreError(
        path=location,
        detail=f"{location}: its batches were made by an earlier version, whose tables this "
        "version cannot use.",
        remedy="Finish them with that version and write their results, then drop its tables "
        "vibe_items, vibe_chunks and vibe_batches; or name another database.",
    )
