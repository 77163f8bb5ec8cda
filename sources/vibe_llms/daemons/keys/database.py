"""Opens the database of what keys spend, and says in our words what SQLite says in its own."""

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
"""Of the schema."""

PATIENCE_SECONDS: Final = 5.0
"""How long others may keep it. Their transactions are short; SQLite's own default is as much."""

_SPENT: Final = """
    requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    cents TEXT NOT NULL,  -- exact decimals, also below
    perhaps_requests INTEGER NOT NULL, perhaps_input_tokens INTEGER NOT NULL,
    perhaps_output_tokens INTEGER NOT NULL, perhaps_cents TEXT NOT NULL, unpriced INTEGER NOT NULL,
"""
_SCHEMA: Final = (
    "CREATE TABLE spending (key TEXT, day TEXT, model TEXT,"
    f" {_SPENT} PRIMARY KEY (key, day, model)) WITHOUT ROWID",
    # what is under way: begun in a journal and not yet ended
    "CREATE TABLE reservations (journal TEXT, number INTEGER, key TEXT NOT NULL, day TEXT NOT NULL,"
    " model TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,"
    " cents TEXT, second INTEGER, PRIMARY KEY (journal, number)) WITHOUT ROWID",
    "CREATE INDEX reservations_by_key ON reservations (key, day)",
    # up to which byte each journal is in the two above
    "CREATE TABLE journals (name TEXT PRIMARY KEY, folded INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE minutes (key TEXT, second INTEGER, requests INTEGER NOT NULL,"
    " tokens INTEGER NOT NULL, PRIMARY KEY (key, second)) WITHOUT ROWID",
)


def open_database(path: Path) -> sqlite3.Connection:
    """Opens the database, for any thread; makes it where there is none.

    Raises:
        StoreError: It cannot be opened, or is none of ours.
    """
    with telling(path):
        make_folders(Disk(), str(path.parent))
        # While one process makes it, others must not come upon half of it.
        with locked(f"{path}.lock"):
            with suppress(FileExistsError):  # SQLite would let everybody read it
                open_handle(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600).close()
            connection = sqlite3.connect(
                path, timeout=PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                _prepare(connection, path)
            except BaseException:
                connection.close()
                raise
            return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    # What a process has written outlives it; only the loss of power may take the last moments.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == VERSION:
        return
    with transaction(connection):
        if version != 0 or connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
            raise StoreError(
                path=str(path),
                detail=f"{path} is of another version ({version}), or no account of what keys"
                " spend.",
                remedy="Use the version of vibe-llms that wrote it, or move it away.",
            )
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Performs the block alone among all processes, and wholly or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite has done so itself where the disk is full
            connection.execute("ROLLBACK")
        raise


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Makes a StoreError of what SQLite or the operating system says, in one line."""
    try:
        yield
    except StoreError:
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise StoreError(
            path=str(path),
            detail=f"What keys spend cannot be accounted for: {path}: {error}.",
            remedy=_REMEDIES.get(code, _ELSE),
        ) from error
    except OSError as error:
        from vibe_llms.foundation.files import advise

        raise StoreError(
            path=str(path),
            detail=f"What keys spend cannot be accounted for: {error.filename or path}:"
            f" {error.strerror}.",
            remedy=advise(error),
        ) from error


_ELSE: Final = "Put a copy in its place, or move it away: spending then counts from nothing again."
_REMEDIES: Final = {
    sqlite3.SQLITE_FULL: "Make room on that disk.",
    sqlite3.SQLITE_IOERR: "Look after that disk.",
    sqlite3.SQLITE_BUSY: "Another process keeps it; wait until that is done, or stop it.",
    sqlite3.SQLITE_LOCKED: "Another process keeps it; wait until that is done, or stop it.",
    sqlite3.SQLITE_READONLY: "Check that it may be written to, and its folder, too.",
    sqlite3.SQLITE_CANTOPEN: "Check that it may be written to, and its folder, too.",
    sqlite3.SQLITE_PERM: "Check that it may be written to, and its folder, too.",
}
