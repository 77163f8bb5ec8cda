"""Open and replace the database of the index.

Users of the database hold a shared lock on a file beside it; replacing it takes an exclusive lock.
Without the lock, SQLite could apply the journal of the old database to the new one.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from zlib import crc32

from vibe_llms.conversations.index.tokenization import TOKENIZER
from vibe_llms.foundation.files import open_handle
from vibe_llms.logs.locks import locked

VERSION = 4
"""Version of the schema and of the indexed data.

Increase this number when the tables or the tokenizer change.
"""

LOCK_TIMEOUT_SECONDS = 2.0
"""Maximum wait while another process locks the database; then the files are read instead."""

KEY_SHIFT = 32
"""Number of bits by which a conversation's key is shifted in the row number of a canister.

The row number is the shifted key, plus the position of the canister in the conversation.
"""

_SCHEMA = f"""
CREATE TABLE state (
    directory TEXT NOT NULL,        -- of the conversations that are indexed
    compared INTEGER NOT NULL,      -- time at which all of them were last compared with the files
    started INTEGER NOT NULL,       -- time of the machine's start, as computed then
    times TEXT NOT NULL             -- digest of the times of all shards; empty if not all are final
);
CREATE TABLE shards (
    shard TEXT PRIMARY KEY,
    changed INTEGER NOT NULL,       -- time of its folder; 0 if a later change could have the same
    fingerprint TEXT NOT NULL       -- digest of the stamps of its conversations
);
CREATE TABLE conversations (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    shard TEXT NOT NULL,
    inode INTEGER NOT NULL,         -- inode, size and time of change of messages.jsonl, which are
    size INTEGER NOT NULL,          -- compared to detect a change
    changed INTEGER NOT NULL,
    indexed INTEGER NOT NULL,       -- bytes of messages.jsonl that are in this row
    tail INTEGER NOT NULL,          -- checksum of the last of these, to detect a rewritten file
    canisters INTEGER NOT NULL,
    first_words TEXT NOT NULL,
    first_position INTEGER NOT NULL,
    used_model TEXT,
    description TEXT NOT NULL,      -- stamp of metadata.toml
    name TEXT,
    created INTEGER NOT NULL,       -- moments are nanoseconds since 1970
    updated INTEGER NOT NULL,
    model TEXT,
    tags TEXT NOT NULL,             -- an array in JSON; empty for none
    merged_bytes INTEGER NOT NULL,  -- bytes that were moved here from deleted parents
    parent TEXT,
    parent_canisters INTEGER,
    parent_bytes INTEGER,
    inherited INTEGER,              -- number of canisters of its parents; NULL if not counted yet
    searchable INTEGER NOT NULL DEFAULT 0,  -- bytes of messages.jsonl in `texts` and `places`
    placed INTEGER NOT NULL DEFAULT 0       -- canisters in `places`
);
CREATE UNIQUE INDEX identities ON conversations (id);
CREATE INDEX stamps ON conversations (shard, id, key, inode, size, changed);
CREATE INDEX newest ON conversations (updated DESC, id);
CREATE INDEX unsearchable ON conversations (key) WHERE searchable <> indexed;
CREATE TABLE places (
    place INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    timestamp INTEGER NOT NULL
);
CREATE VIRTUAL TABLE texts USING fts5 (text, role, tokenize = "{TOKENIZER}");
"""

_DAMAGE_CODES = frozenset(
    {
        sqlite3.SQLITE_ERROR,  # a table is missing: another schema despite its version
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_FORMAT,
    }
)


class UnusableIndexError(Exception):
    """The database has another version or directory and must be rebuilt. Internal."""


def compose_database_path(cache: str | os.PathLike[str], directory: str | os.PathLike[str]) -> str:
    """Return the path of a store's database in the cache directory; each store has one.

    Args:
        cache: Cache directory.
        directory: Directory of the conversations.
    """
    # `hashlib` would take a tenth of the time of a list. If two stores had equal checksums, each
    # would replace the other's database.
    checksum = crc32(os.fsencode(os.path.realpath(directory)))
    return os.path.join(cache, "index", f"{checksum:08x}.sqlite")


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error means that the database is damaged, not just unavailable."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF in _DAMAGE_CODES  # the lowest byte is the primary error code


@contextmanager
def open_database(path: str, directory: str) -> Iterator[sqlite3.Connection]:
    """Open the database, or create it.

    Args:
        directory: Directory of the conversations.

    Raises:
        UnusableIndexError: The index has another version or directory.
        sqlite3.Error, OSError: It is unavailable or damaged; see :func:`is_damage`.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with _lock(path, shared=True), closing(_connect(path)) as connection:
        connection.execute("PRAGMA synchronous = NORMAL")  # a cache may lose its last changes
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        # A new file, or one whose process was killed before creating the tables.
        if version == 0:
            _prepare_shared(connection, directory)
        elif version != VERSION:
            raise UnusableIndexError(f"version {version}")
        if connection.execute("SELECT directory FROM state").fetchone() != (directory,):
            raise UnusableIndexError("another directory")
        yield connection


def _lock(path: str, *, shared: bool) -> AbstractContextManager[None]:
    return locked(f"{path}.lock", shared=shared, wait_seconds=LOCK_TIMEOUT_SECONDS)


def _connect(path: str) -> sqlite3.Connection:
    # Create the file, as SQLite would create a file that all users can read. An existing file must
    # not be opened: closing it would release the locks of other threads.
    try:
        open_handle(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600).close()
    except FileExistsError:
        pass
    else:
        _discard_abandoned(os.path.dirname(path), kept_path=path)
    return sqlite3.connect(path, timeout=LOCK_TIMEOUT_SECONDS, isolation_level=None)


@contextmanager
def open_memory() -> Iterator[sqlite3.Connection]:
    """Open a temporary database, if the cache is unavailable."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _prepare(connection, "")
        yield connection


def discard_database(path: str) -> None:
    """Remove the database when no process uses it.

    Raises:
        OSError: Other processes used the database until the timeout, or it cannot be removed.
    """
    with _lock(path, shared=False):
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.unlink(path + suffix)


def _discard_abandoned(folder: str, *, kept_path: str) -> None:
    """Remove databases in the folder of a new one whose conversations no longer exist."""
    from urllib.parse import quote  # few processes create a database

    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if not name.endswith(".sqlite") or path == kept_path:
            continue
        with suppress(sqlite3.Error, OSError, TypeError):
            with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection:
                (directory,) = connection.execute("SELECT directory FROM state").fetchone()
            if not os.path.isdir(directory):
                discard_database(path)


def _prepare(connection: sqlite3.Connection, directory: str) -> None:
    for statement in _split(_SCHEMA):
        connection.execute(statement)
    connection.execute("INSERT INTO state VALUES (?, 0, 0, '')", (directory,))


def _prepare_shared(connection: sqlite3.Connection, directory: str) -> None:
    # Before the transaction: inside one, SQLite cannot change the journal mode.
    connection.execute("PRAGMA journal_mode = WAL")
    with transaction(connection):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:  # no other process has done it in the meantime
            _prepare(connection, directory)
            connection.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block as a transaction, with an exclusive lock among processes."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite itself rolls back if the disk is full
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _split(script: str) -> Iterator[str]:
    """Split a script into statements; ``executescript`` would commit."""
    statement = ""
    for line in script.splitlines():
        statement += line.partition("--")[0] + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
