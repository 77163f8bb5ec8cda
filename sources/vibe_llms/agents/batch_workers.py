"""A worker of batches: takes a chunk after the other from the rows of a database.

What it has taken is its own for a while, and again for as long as it says so. Whoever dies says
nothing more, and the others take it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from vibe_llms.agents.queues import BATCHES, Queue
from vibe_llms.batches.databases import BatchDatabase
from vibe_llms.batches.making import WorkMaker
from vibe_llms.batches.performing import ChunkPerformer
from vibe_llms.batches.row_chunks import (
    LEASE_SECONDS,
    Taken,
    renew,
    take_next,
)
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.portal import finish

_LOGGER = logging.getLogger(__name__)

GRACE_SECONDS: Final = 10.0
"""How long a worker that is told to leave works on."""

_LOOK_SECONDS: Final = 0.2
"""How often a worker that has nothing to do looks for what others have handed over."""
_PAUSE_SECONDS: Final = 1.0
"""How long a worker that has met a fault takes nothing."""
_HELD: Final = 2
"""How many times as many chunks as it is to have a worker has, with those that end."""
_BEATS: Final = 3
"""How often a chunk is said to be had while it is had."""


@define(eq=False)
class _Hold:
    """A chunk that a worker has.

    Attributes:
        is_ending: Whether nothing of it is left to be begun.
    """

    taken: Taken
    is_ending: bool = False


class ChunkWorker:
    """Performs chunks of batches, as many at once as its queue says.

    Args:
        database: Has the batches.
        maker: Makes what inputs are put to.
        queue: How many chunks it has at once, and all workers together.
        lease_seconds: How long nobody else takes what it has, where it dies.
    """

    def __init__(
        self,
        database: BatchDatabase,
        maker: WorkMaker,
        *,
        queue: Queue = BATCHES,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._database = database
        self._queue = queue
        self._lease_seconds = lease_seconds
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._chunks: dict[asyncio.Task[None], _Hold] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.performer = ChunkPerformer(database, maker)
        self.is_leaving = False

    def start(self) -> None:
        """Begins to take chunks."""
        self._tasks = [asyncio.create_task(self._work()), asyncio.create_task(self._renew())]

    def wake(self) -> None:
        """Has it look for chunks at once; from any thread."""
        self._loop.call_soon_threadsafe(self._woken.set)

    async def close(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """Takes no more, and leaves what is not done after a while to others."""
        self.is_leaving = True
        self._woken.set()
        for task in self._tasks[:1]:  # who takes one just now has it
            await finish(asyncio.wait([task]))
        if chunks := list(self._chunks):  # which may be forgotten before they are waited for
            await finish(asyncio.wait(chunks, timeout=grace_seconds))
        for chunk in self._chunks:
            chunk.cancel()
        for task in self._tasks[1:]:
            task.cancel()
        await finish(asyncio.gather(*self._chunks, *self._tasks, return_exceptions=True))
        await self.performer.close()

    async def _work(self) -> None:
        while not self.is_leaving:
            self._woken.clear()
            has_room = self._has_room
            taken = await self._take() if has_room else None
            if taken is not None:
                if taken.doubted:
                    _LOGGER.warning(
                        "chunk %s of batch %s is taken over; up to %s of its inputs are asked"
                        " again, and may be billed twice",
                        taken.chunk,
                        taken.batch,
                        taken.doubted,
                    )
                hold = _Hold(taken)
                chunk = asyncio.create_task(self._perform(hold))
                self._chunks[chunk] = hold
                chunk.add_done_callback(self._forget)
                continue
            timer = self._loop.call_later(_LOOK_SECONDS, self._woken.set) if has_room else None
            await self._woken.wait()
            if timer is not None:
                timer.cancel()

    @property
    def _has_room(self) -> bool:
        """Whether one more is taken: those whose last inputs are under way keep no place free."""
        begun = sum(not each.is_ending for each in self._chunks.values())
        return begun < self._queue.each and len(self._chunks) < _HELD * self._queue.each

    def _forget(self, chunk: asyncio.Task[None]) -> None:
        del self._chunks[chunk]
        self._woken.set()

    async def _take(self) -> Taken | None:
        given = self._database, self._lease_seconds, self._queue.total
        held = {(each.taken.batch, each.taken.chunk) for each in self._chunks.values()}
        try:
            with suppress(BlockingIOError):
                return take_next(*given, held, at_once=True)
            return await finish(asyncio.to_thread(take_next, *given, held))
        except StoreError as error:
            _LOGGER.warning("a chunk cannot be taken now: %s", error)
        await self._pause()
        return None

    async def _perform(self, hold: _Hold) -> None:
        taken = hold.taken

        def note(is_ending: bool) -> None:
            hold.is_ending = is_ending
            self._woken.set()

        try:
            await self.performer.perform(taken, lambda: self.is_leaving, note)
        except Exception as error:  # also a mistake of ours: others may do better
            _LOGGER.warning("chunk %s of batch %s waits: %s", taken.chunk, taken.batch, error)
            await self._pause()

    async def _pause(self) -> None:
        """Waits a moment, but for who is leaving."""
        pause = 0.0
        while pause < _PAUSE_SECONDS and not self.is_leaving:
            await asyncio.sleep(_LOOK_SECONDS)
            pause += _LOOK_SECONDS

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / _BEATS)
            for hold in list(self._chunks.values()):
                try:
                    await finish(
                        asyncio.to_thread(renew, self._database, hold.taken, self._lease_seconds)
                    )
                except StoreError as error:  # others may take it, which costs and loses nothing
                    _LOGGER.warning("the database of batches is out of reach: %s", error)
