"""Cache of paid results, in a file that several runs may use at the same time.

The key of an answer is the digest of the request, and the number of the repeat. An interrupted run
continues with the answers that it has; a second run costs nothing. Failures are not cached.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from vibe_llms.configuration.paths import access_user_directory
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.files import advise, naming
from vibe_llms.foundation.portal import finish

_T = TypeVar("_T")

MAX_BYTES: Final = 512_000_000
"""Size of all results together; the oldest are removed when the cache is opened."""

_VERSION: Final = 1
_PATIENCE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.01
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY,
    value BLOB NOT NULL,        -- JSON
    stored REAL NOT NULL        -- seconds since 1970
) WITHOUT ROWID
"""


def find_cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the user's folder of cached results."""
    return access_user_directory("cache", environment) / "evals"


class EvalCache:
    """Cache of results as JSON, by key.

    Args:
        folder: Folder of the file; it is created if missing.

    Raises:
        StoreError: The file cannot be opened, or is damaged.
    """

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder
        self.path = folder / "results.sqlite"
        self._lock = threading.Lock()
        self._connection = self._translate(lambda: self._open(max_bytes))

    def _open(self, max_bytes: int) -> sqlite3.Connection:
        with naming(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self.path, timeout=_PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            _enable_concurrency(connection)
            # A loss of power may lose the last results, the death of the process does not.
            connection.execute("PRAGMA synchronous = NORMAL")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _VERSION):
                raise StoreError(
                    path=str(self.path),
                    detail=f"{self.path} was written by another version of vibe-llms.",
                    remedy="Delete it; it is a cache.",
                )
            connection.execute(_SCHEMA)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            _prune(connection, max_bytes)
        except BaseException:
            connection.close()
            raise
        return connection

    def _translate(self, work: Callable[[], _T]) -> _T:
        try:
            with self._lock:
                return work()
        except sqlite3.Error as error:
            raise StoreError(
                path=str(self.path),
                detail=f"Cannot use the cache {self.path}: {error}.",
                remedy="Delete it if it is damaged, or name another folder with --cache.",
            ) from error
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(
                path=str(self.path),
                detail=f"Cannot use the cache {self.path}: {error.strerror or error}.",
                remedy=advise(error),
            ) from error

    async def find(self, key: str) -> bytes | None:
        """Return a result; ``None`` if there is none. Raises StoreError."""
        query = "SELECT value FROM results WHERE key = ?"
        row = self._translate(lambda: self._connection.execute(query, (key,)).fetchone())
        return None if row is None else bytes(row[0])

    async def add(self, key: str, value: bytes, *, replaces: bool = False) -> None:
        """Store a result, unless another run was faster. Raises StoreError.

        Args:
            replaces: Whether to replace a result.
        """
        verb = "REPLACE" if replaces else "IGNORE"
        statement = f"INSERT OR {verb} INTO results VALUES (?, ?, ?)"
        row = (key, value, time.time())
        work = asyncio.to_thread(
            self._translate, lambda: self._connection.execute(statement, row).close()
        )
        await finish(work)  # it is paid for, also if this run is cancelled

    def close(self) -> None:
        """Close the file."""
        self._translate(self._connection.close)


def _enable_concurrency(connection: sqlite3.Connection) -> None:
    """Switch the file to a write-ahead log, which several processes can use at the same time.

    SQLite does not wait for a lock when it switches; another process may do so at this moment.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _prune(connection: sqlite3.Connection, max_bytes: int) -> None:
    """Remove the oldest results until all others fit."""
    total = connection.execute("SELECT total(length(value)) FROM results").fetchone()[0]
    if total <= max_bytes:
        return
    connection.execute(
        "DELETE FROM results WHERE key IN (SELECT key FROM (SELECT key, sum(length(value)) OVER"
        " (ORDER BY stored DESC, key) AS size FROM results) WHERE size > ?)",
        (max_bytes,),
    )
