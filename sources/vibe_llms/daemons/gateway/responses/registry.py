"""SQLite database of responses and conversations, and their owners.

Several worker processes use it at once. Concurrent writes share one transaction and one sync.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Final, TypeVar

from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.coalescing import Coalescer
from vibe_llms.logs import locks
from vibe_llms.messages.identities import produce_identity

_T = TypeVar("_T")

Work = Callable[[sqlite3.Connection], _T]

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS responses (
    id TEXT PRIMARY KEY,
    subject TEXT NOT NULL,          -- who may read it
    address TEXT NOT NULL,          -- the model that has answered
    conversation TEXT NOT NULL,     -- in the store; empty where the upstream keeps it
    input TEXT NOT NULL,            -- ids of canisters, in JSON
    output TEXT NOT NULL,
    last TEXT NOT NULL,             -- the canister with which it ends
    created REAL NOT NULL,          -- seconds since 1970
    status TEXT NOT NULL,
    owner TEXT NOT NULL,            -- the process that answers
    body TEXT NOT NULL              -- the response without its output, in JSON
);
CREATE INDEX IF NOT EXISTS ages ON responses (created);
CREATE INDEX IF NOT EXISTS places ON responses (conversation);
CREATE TABLE IF NOT EXISTS conversations (
    id TEXT PRIMARY KEY,            -- of the conversation in the store, too
    subject TEXT NOT NULL,
    created REAL NOT NULL,
    metadata TEXT NOT NULL,
    hidden TEXT NOT NULL            -- ids of items that were deleted, in JSON
);
CREATE INDEX IF NOT EXISTS conversation_ages ON conversations (created);
CREATE TABLE IF NOT EXISTS frames (
    id TEXT PRIMARY KEY,            -- of a response in the background that was streamed
    data BLOB NOT NULL
);
"""
_BUSY_TIMEOUT_SECONDS: Final = 10.0
"""How long to wait for the transaction of another process."""


class ResponseDatabase:
    """The database, in a separate folder; opened on first use.

    Each process that uses the database is an owner of responses. While the process is alive, it
    holds a lock on a file for that owner.

    Args:
        folder: Created if it is missing.

    Attributes:
        owner: Id of this process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection: sqlite3.Connection | None = None
        self._lock: FileIO | None = None
        self._coalescer: Coalescer[Work[Any], Any] = Coalescer(self._commit)
        self.owner = produce_identity()

    async def perform(self, work: Work[_T]) -> _T:
        """Do work in a transaction; its writes are durable when this returns.

        Concurrent calls share the next transaction, so an error in one call would fail all calls.

        Raises:
            StoreError: The disk is full, or the database is unusable.
        """
        result: _T = await self._coalescer.ask(work)
        return result

    def _commit(self, works: Sequence[Work[Any]]) -> list[Any]:
        try:
            connection = self._open()
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                return [work(connection) for work in works]
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                path=str(self._folder),
                detail=f"Cannot store responses: {error}.",
                remedy="Check that the disk has space and that the folder is writable.",
            ) from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._lock is None:
            lock_file = self._compose_lock_path(self.owner)
            lock_file.touch(mode=0o600)
            self._lock = locks.acquire(str(lock_file), wait_seconds=0)
        connection = sqlite3.connect(
            self._folder / "responses.sqlite",
            timeout=_BUSY_TIMEOUT_SECONDS,
            isolation_level=None,
            check_same_thread=False,  # only one task uses the connection, one thread at a time
        )
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # durable once acknowledged
        connection.executescript(_SCHEMA)
        self._connection = connection
        return connection

    def _compose_lock_path(self, owner: str) -> Path:
        return self._folder / f"{owner}.lock"

    def is_alive(self, owner: str) -> bool:
        """Return whether a process is alive, by the lock that it holds."""
        if owner == self.owner:
            return True
        lock_file = self._compose_lock_path(owner)
        try:
            lock = locks.acquire(str(lock_file), wait_seconds=0)
        except FileNotFoundError:
            return False
        except StoreError:
            return True
        lock_file.unlink(missing_ok=True)
        locks.release(lock)
        return False

    async def close(self) -> None:
        """Wait for running work, and close the database."""
        await self._coalescer.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock is not None:
            with suppress(OSError):
                self._compose_lock_path(self.owner).unlink()
            locks.release(self._lock)
            self._lock = None
