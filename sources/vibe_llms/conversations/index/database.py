"""Opens the cache, and throws it away when it is no good.

Whoever uses the database holds a shared lock on a file beside it; whoever replaces it, an
exclusive one. Without it, SQLite could find the journal of one database beside another.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress

from vibe_llms.conversations.index.words import TOKENIZER
from vibe_llms.foundation.files import open_handle
from vibe_llms.logs.locks import locked

VERSION = 2
"""Of the schema and of what is written into it. Change it with either, and with the tokenizer."""

PATIENCE_SECONDS = 2.0
"""How long another process may keep the database before the files are read instead."""

KEY_SHIFT = 32
"""A canister's row is its conversation's key, shifted by so many bits, plus its position."""

_SCHEMA = f"""
CREATE TABLE state (
    directory TEXT NOT NULL,        -- of the conversations that are indexed
    fingerprint TEXT NOT NULL
);
CREATE TABLE conversations (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    inode INTEGER NOT NULL,         -- of messages.jsonl, with its size and time of change:
    size INTEGER NOT NULL,          -- what is compared to know whether it was touched
    changed INTEGER NOT NULL,
    description TEXT NOT NULL,      -- the same of metadata.toml
    indexed INTEGER NOT NULL,       -- bytes of messages.jsonl that are in the index
    tail BLOB NOT NULL,             -- a digest of the last of them, to notice a rewritten file
    canisters INTEGER NOT NULL,
    first_words TEXT NOT NULL,
    first_position INTEGER NOT NULL,
    used_model TEXT,
    name TEXT,
    created INTEGER NOT NULL,       -- moments are nanoseconds since 1970
    updated INTEGER NOT NULL,
    model TEXT,
    tags TEXT NOT NULL,             -- an array in JSON; empty for none
    merged_bytes INTEGER NOT NULL,  -- came over from deleted parents
    parent TEXT,
    parent_canisters INTEGER,
    parent_bytes INTEGER
);
CREATE UNIQUE INDEX stamps ON conversations (id, key, inode, size, changed);
CREATE INDEX newest ON conversations (updated DESC, id);
CREATE TABLE places (
    place INTEGER PRIMARY KEY,
    ending INTEGER NOT NULL,        -- where its line ends in messages.jsonl
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    timestamp INTEGER NOT NULL
);
CREATE VIRTUAL TABLE texts USING fts5 (text, role, tokenize = "{TOKENIZER}");
"""

_DAMAGED = frozenset(
    {
        sqlite3.SQLITE_ERROR,  # a table is missing: not our schema, whatever its version says
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_FORMAT,
    }
)


class UnusableIndexError(Exception):
    """The database is of another version or directory, and has to be made anew. Stays inside."""


def is_damage(error: sqlite3.Error) -> bool:
    """Tells whether an error means that the database is damaged, and not merely unavailable."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF in _DAMAGED  # the lowest byte tells the kind of error


@contextmanager
def open_database(path: str, directory: str) -> Iterator[sqlite3.Connection]:
    """Opens the database, making it when there is none.

    Args:
        directory: Of the conversations that it is to index.

    Raises:
        UnusableIndexError: What is there is of another version, or of another directory.
        sqlite3.Error, OSError: It cannot be used now, or is damaged; :func:`is_damage` knows.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with _hold(path, shared=True), closing(_connect(path)) as connection:
        connection.execute("PRAGMA synchronous = NORMAL")  # a cache may lose its last moments
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        # A new file, or one that whoever made it was killed before filling.
        if version == 0:
            _prepare_shared(connection, directory)
        elif version != VERSION:
            raise UnusableIndexError(f"version {version}")
        if connection.execute("SELECT directory FROM state").fetchone() != (directory,):
            raise UnusableIndexError("another directory")
        yield connection


def _hold(path: str, *, shared: bool) -> AbstractContextManager[None]:
    return locked(f"{path}.lock", shared=shared, wait_seconds=PATIENCE_SECONDS)


def _connect(path: str) -> sqlite3.Connection:
    # SQLite would let everybody read what is nobody else's business. An existing file must not
    # be opened here: closing it again would take another thread's locks away.
    with suppress(FileExistsError):
        open_handle(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600).close()
    return sqlite3.connect(path, timeout=PATIENCE_SECONDS, isolation_level=None)


@contextmanager
def open_memory() -> Iterator[sqlite3.Connection]:
    """Opens a database that lives only as long as it is open, for when the cache is no use."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _prepare(connection, "")
        yield connection


def discard_database(path: str) -> None:
    """Removes the database, once nobody uses it any more.

    Raises:
        OSError: Others go on using it for too long, or it cannot be removed.
    """
    with _hold(path, shared=False):
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.unlink(path + suffix)


def _prepare(connection: sqlite3.Connection, directory: str) -> None:
    for statement in _split(_SCHEMA):
        connection.execute(statement)
    connection.execute("INSERT INTO state VALUES (?, '')", (directory,))


def _prepare_shared(connection: sqlite3.Connection, directory: str) -> None:
    # Before the transaction: within one, SQLite does not change the kind of its journal.
    connection.execute("PRAGMA journal_mode = WAL")
    with transaction(connection):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:  # nobody else was faster
            _prepare(connection, directory)
            connection.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Performs the block alone among all processes, and wholly or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite has ended it itself where the disk is full
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _split(script: str) -> Iterator[str]:
    """Parts a script into statements: ``executescript`` would commit on its own."""
    statement = ""
    for line in script.splitlines():
        statement += line.partition("--")[0] + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
