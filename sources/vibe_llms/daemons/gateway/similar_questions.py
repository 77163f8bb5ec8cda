"""Questions of cached requests, found by the similarity of their meaning."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from vibe_llms.messages.vectors import FLOAT_BYTES
from vibe_llms.retrieval.opening import open_memory

if TYPE_CHECKING:
    import apsw


_P = ParamSpec("_P")
_Answer = TypeVar("_Answer")


class SimilarQuestions:
    """Vectors of the last questions of requests, in memory.

    Only requests of one *scope* are compared: such requests differ only in the last question. A
    search takes milliseconds for thousands of questions, so all work is done in a thread.

    Args:
        similarity: Minimum cosine of the angle between two vectors.
        entries: Maximum number of questions; the oldest is dropped first.

    Raises:
        DependencyError: APSW or sqlite-vec is not installed.
    """

    def __init__(self, similarity: float, entries: int) -> None:
        self._similarity = similarity
        self._entries = entries
        self._connection: apsw.Connection = open_memory()
        self._width = 0
        self._keys: OrderedDict[int, str] = OrderedDict()
        self._rows: dict[str, int] = {}
        self._lock = asyncio.Lock()
        self._mutex = threading.Lock()  # a thread continues if its task is cancelled

    def __len__(self) -> int:
        return len(self._keys)

    async def find(self, scope: str, vector: bytes) -> tuple[str, float] | None:
        """Return the key of the most similar question, and the similarity, if it suffices."""
        return await self._call(self._find, scope, vector)

    async def add(self, scope: str, vector: bytes, key: str) -> None:
        """Add a question, or replace the question with this key.

        Args:
            key: Key of the question's answer in the cache.
        """
        await self._call(self._add, scope, vector, key)

    async def drop(self, key: str) -> None:
        """Forget a question, if it is there."""
        await self._call(self._drop, key)

    async def _call(
        self, function: Callable[_P, _Answer], *args: _P.args, **settings: _P.kwargs
    ) -> _Answer:
        """Call a function of the database in a thread, one at a time."""

        def run() -> _Answer:
            with self._mutex:
                return function(*args, **settings)

        async with self._lock:  # so that waiting calls use no threads
            return await asyncio.to_thread(run)

    def _find(self, scope: str, vector: bytes) -> tuple[str, float] | None:
        if not self._keys or len(vector) != self._width or not any(vector):
            return None
        row = self._connection.execute(
            "SELECT rowid, distance FROM vectors WHERE embedding MATCH ? AND k = 1 AND scope = ?",
            (vector, scope),
        ).fetchone()
        if row is None:
            return None
        key, distance = row
        similarity = 1.0 - distance
        return (self._keys[key], similarity) if similarity >= self._similarity else None

    def _add(self, scope: str, vector: bytes, key: str) -> None:
        self._drop(key)
        if not any(vector):  # it has no direction: it is similar to nothing
            return
        if len(vector) != self._width:  # of another embedder
            self._keys.clear()
            self._rows.clear()
        if not self._keys:
            self._width = len(vector)
            self._connection.execute("DROP TABLE IF EXISTS vectors")
            self._connection.execute(
                "CREATE VIRTUAL TABLE vectors USING vec0 (scope text partition key,"
                f" embedding float[{len(vector) // FLOAT_BYTES}] distance_metric=cosine)"
            )
        self._connection.execute(
            "INSERT INTO vectors (scope, embedding) VALUES (?, ?)", (scope, vector)
        )
        row = self._connection.last_insert_rowid()
        self._keys[row], self._rows[key] = key, row
        if len(self._keys) > self._entries:
            self._drop(next(iter(self._keys.values())))

    def _drop(self, key: str) -> None:
        row = self._rows.pop(key, None)
        if row is not None:
            del self._keys[row]
            self._connection.execute("DELETE FROM vectors WHERE rowid = ?", (row,))
