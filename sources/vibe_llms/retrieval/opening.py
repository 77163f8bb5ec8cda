"""Opening of the database of passages, and its schema.

The database is a cache, which is made anew from the texts if it is missing, damaged, or of another
version or model. It is a file of its own, opened with APSW: the ``sqlite3`` module of many Pythons
cannot load extensions, and two SQLite libraries in one process must not open the same file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vibe_llms.conversations.index.tokenization import TOKENIZER
from vibe_llms.foundation.files import open_handle
from vibe_llms.foundation.optional_packages import needing

if TYPE_CHECKING:
    import apsw

VERSION: Final = 3
"""Of the schema and of the passages. Change it with either, and with the tokenizer."""

PATIENCE_MS: Final = 30_000
"""How long another process may write."""

_SCHEMA: Final = f"""
CREATE TABLE state (model TEXT NOT NULL, width INTEGER NOT NULL);
CREATE TABLE collections (
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE       -- the conversations, or a folder
);
CREATE TABLE documents (
    key INTEGER PRIMARY KEY,
    collection INTEGER NOT NULL REFERENCES collections (key),
    name TEXT NOT NULL,             -- id of the conversation, or path in the folder
    stamp TEXT NOT NULL,            -- changes with the text; empty until all passages are stored
    is_part INTEGER NOT NULL,       -- of another conversation, such as a visit of a flow
    UNIQUE (collection, name)
);
CREATE TABLE passages (
    key INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents (key),
    digest BLOB NOT NULL,           -- equal passages of a document share a vector
    position INTEGER NOT NULL,
    item TEXT NOT NULL,
    role TEXT NOT NULL,
    timestamp INTEGER,              -- microseconds since 1970
    UNIQUE (document, digest)
);
CREATE VIRTUAL TABLE texts USING fts5 (heading, text, tokenize = "{TOKENIZER}");
"""

VECTORS: Final = (
    "CREATE VIRTUAL TABLE vectors USING vec0 (embedding float[{width}] distance_metric=cosine,"
    " collection integer, role integer, is_part integer)"  # filters by text take twice the time
)


def open_database(path: str, model: str) -> apsw.Connection:
    """Open the database, or make it anew.

    Args:
        path: The file; its directory is created if it is missing.
        model: Address of the embedder, whose vectors it has.

    Raises:
        DependencyError: APSW or sqlite-vec is not installed.
        OSError, apsw.Error: The file is unavailable.
    """
    with needing("meaning", "apsw", "Search by meaning"):
        import apsw

    with suppress(apsw.CorruptError, apsw.NotADBError, apsw.SQLError):
        connection = _connect(path, model)
        if _is_current(connection, model):
            return connection
        connection.close()
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(path + suffix).unlink()
    return _connect(path, model)


def open_memory() -> apsw.Connection:
    """Open an empty database in memory that can have tables of vectors.

    Raises:
        DependencyError: APSW or sqlite-vec is not installed.
    """
    return _load_extension(":memory:")


def _load_extension(path: str) -> apsw.Connection:
    """Open a file or memory, with sqlite-vec."""
    with needing("meaning", "apsw", "Search by meaning"):
        import apsw
    with needing("meaning", "sqlite-vec", "Search by meaning"):
        import sqlite_vec  # type: ignore[import-untyped]

    connection = apsw.Connection(path)
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.enable_load_extension(False)
    return connection


def _connect(path: str, model: str) -> apsw.Connection:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):  # SQLite would create a file that all users can read
        open_handle(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600).close()
    connection = _load_extension(path)
    try:
        connection.set_busy_timeout(PATIENCE_MS)
        connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
        with transaction(connection):
            if _read_version(connection) == 0:  # new, or its creator was killed
                connection.execute(_SCHEMA)
                connection.execute("INSERT INTO state VALUES (?, 0)", (model,))
                connection.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_current(connection: apsw.Connection, model: str) -> bool:
    if _read_version(connection) != VERSION:
        return False
    return bool(connection.execute("SELECT model FROM state").get == model)


def _read_version(connection: apsw.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").get)


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Run the block as a transaction, with an exclusive lock among processes."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")  # may fail, too, if the disk is full
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
