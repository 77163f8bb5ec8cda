"""Open the SQLite database of spending, and map its errors."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.files import open_handle
from vibe_llms.logs.disk import Disk, make_folders
from vibe_llms.logs.locks import locked

VERSION: Final = 1
"""Version of the schema."""

BUSY_TIMEOUT_SECONDS: Final = 5.0
"""Time to wait for the lock. Transactions of other processes are short."""

_SUM_COLUMNS: Final = """
    requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    cents TEXT NOT NULL,  -- an exact decimal, as all columns of cents
    -- perhaps_…: requests with an unknown outcome; see KeySpending
    perhaps_requests INTEGER NOT NULL, perhaps_input_tokens INTEGER NOT NULL,
    perhaps_output_tokens INTEGER NOT NULL, perhaps_cents TEXT NOT NULL, unpriced INTEGER NOT NULL,
"""
_SCHEMA: Final = (
    "CREATE TABLE spending (key TEXT, day TEXT, model TEXT,"
    f" {_SUM_COLUMNS} PRIMARY KEY (key, day, model)) WITHOUT ROWID",
    # requests under way: started in a journal and not ended
    "CREATE TABLE reservations (journal TEXT, number INTEGER, key TEXT NOT NULL, day TEXT NOT NULL,"
    " model TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,"
    " cents TEXT, second INTEGER, PRIMARY KEY (journal, number)) WITHOUT ROWID",
    "CREATE INDEX reservations_by_key ON reservations (key, day)",
    # offset up to which each journal is in the tables above
    "CREATE TABLE journals (name TEXT PRIMARY KEY, folded INTEGER NOT NULL) WITHOUT ROWID",
    # requests of the last minute by second, for the limits per minute
    "CREATE TABLE minutes (key TEXT, second INTEGER, requests INTEGER NOT NULL,"
    " tokens INTEGER NOT NULL, PRIMARY KEY (key, second)) WITHOUT ROWID",
)

_LATER_TABLES: Final = (
    # settled requests whose actual usage may become known later; see KeyLedger.defer
    "CREATE TABLE IF NOT EXISTS deferred (name TEXT PRIMARY KEY, key TEXT NOT NULL,"
    " day TEXT NOT NULL, model TEXT NOT NULL, input_tokens INTEGER NOT NULL,"
    " output_tokens INTEGER NOT NULL, cents TEXT) WITHOUT ROWID",
)
"""Tables that earlier versions with the same schema do not have, and ignore."""


def open_database(path: Path) -> sqlite3.Connection:
    """Open the database for any thread; create a missing database.

    Raises:
        StoreError: It cannot be opened, or belongs to another program.
    """
    with mapping_errors(path):
        make_folders(Disk(), str(path.parent))
        # Create the database under a lock, so that other processes never see a part of it.
        with locked(f"{path}.lock"):
            with suppress(FileExistsError):  # by default SQLite creates it readable for all users
                open_handle(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600).close()
            connection = sqlite3.connect(
                path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                _prepare(connection, path)
            except BaseException:
                connection.close()
                raise
            return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    # Writes survive the process; only a power failure may lose the last ones.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        _create(connection, path, version)
    for statement in _LATER_TABLES:
        connection.execute(statement)


def _create(connection: sqlite3.Connection, path: Path, version: int) -> None:
    with transaction(connection):
        if version != 0 or connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
            raise StoreError(
                path=str(path),
                detail=f"{path} has another version ({version}) or is not a record of spending.",
                remedy="Use the version of vibe-llms that wrote it, or move it away.",
            )
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block in an exclusive transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite has already rolled back if the disk is full
            connection.execute("ROLLBACK")
        raise


@contextmanager
def mapping_errors(path: Path) -> Iterator[None]:
    """Raise errors of SQLite or the operating system as a StoreError."""
    try:
        yield
    except StoreError:
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise StoreError(
            path=str(path),
            detail=f"Cannot account for the spending of keys: {path}: {error}.",
            remedy=_REMEDIES.get(code, _DEFAULT_REMEDY),
        ) from error
    except OSError as error:
        from vibe_llms.foundation.files import advise

        raise StoreError(
            path=str(path),
            detail=f"Cannot account for the spending of keys: {error.filename or path}:"
            f" {error.strerror}.",
            remedy=advise(error),
        ) from error


_DEFAULT_REMEDY: Final = "Restore a backup, or move the file away; spending then counts from zero."
_REMEDIES: Final = {
    sqlite3.SQLITE_FULL: "Free space on that disk.",
    sqlite3.SQLITE_IOERR: "Check that disk.",
    sqlite3.SQLITE_BUSY: "Another process uses it; wait until it is done, or stop it.",
    sqlite3.SQLITE_LOCKED: "Another process uses it; wait until it is done, or stop it.",
    sqlite3.SQLITE_READONLY: "Check that the file and its folder are writable.",
    sqlite3.SQLITE_CANTOPEN: "Check that the file and its folder are writable.",
    sqlite3.SQLITE_PERM: "Check that the file and its folder are writable.",
}
