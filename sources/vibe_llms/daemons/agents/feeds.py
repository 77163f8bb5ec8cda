"""What those who watch runs are sent: each event is read and written once, for all who watch.

A feed keeps the last frames of one run's log, and a watcher has a number, no queue. Whoever is
slower than what is kept reads the log itself, until it has caught up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, get_args

from vibe_llms.agents.performing import HostedEvent
from vibe_llms.daemons.agents.frames import KEPT, write_frame, write_piece
from vibe_llms.events.engine import GenerationFailedEvent, GenerationFinishedEvent
from vibe_llms.events.flow import LogEvent, VisitEvent
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
)
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.log import LogTail
from vibe_llms.runs.places import produce_log

LOOK_SECONDS: Final = 0.5
"""How often logs are looked at that another process may write."""

PAUSE_SECONDS: Final = 0.1
"""How long is waited at most after frames were handed out: what comes meanwhile goes out together.
It is as long as handing them out took, so that the more watch, the more goes out at once."""

DELETED_SECONDS: Final = 2.0
KEEPING_SECONDS: Final = 15.0

KEPT_BYTES: Final = 1 << 16
"""How much of each run's frames is kept for those who are a little behind."""

_KINDS: Final = get_args(LogEvent)
_ENDS_PIECES: Final = (GenerationFailedEvent, GenerationFinishedEvent)
_PIECES: Final = (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
)


class Feed:
    """The last frames of one run's log.

    Attributes:
        run_id: Of the run.
        last: The number of the last event that was read.
        base: All events behind this number, up to the last, are kept.
        changed: Is set when there is more; then there is another in its place.
        is_deleted: Whether there is no such run any more.
        error: Why its log cannot be read; ``None`` where it can.
        watchers: How many there are.
        rest: Whether it had come to rest by the event of a number, as far as anybody has asked.

    Args:
        tail: Reads the log on behind the last event.
        last: Its number.
    """

    def __init__(self, run_id: str, tail: LogTail, last: int) -> None:
        self.run_id = run_id
        self.last = self.base = last
        self.changed = asyncio.Event()
        self.is_deleted = False
        self.error: StoreError | None = None
        self.watchers = 0
        self.rest: tuple[int, bool] | None = None
        self._tail = tail
        self._frames: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._fresh: tuple[int, bytes] = (last, b"")
        self._pieces: list[bytes] = []
        self._pieces_size = 0
        self._volatile, self._volatile_number = b"", 0

    def take(self, after: int) -> bytes:
        """Returns the frames behind a number, where it is not below the base."""
        if after == self._fresh[0]:  # where most are: joined once for all
            return self._fresh[1]
        found = []
        for number, frame in reversed(self._frames):
            if number <= after:
                break
            found.append(frame)
        return b"".join(reversed(found))

    def take_volatile(self, known: int) -> tuple[int, bytes]:
        """Returns what is in no log and came last, and its place; nothing to whoever knows it."""
        number = self._volatile_number
        return number, self._volatile if known < number else b""

    def hear(self, event: HostedEvent) -> bool:
        """Takes what happens in the run; returns whether there may be something to tell."""
        if isinstance(event, _KINDS):
            if isinstance(event, _ENDS_PIECES):
                self._pieces, self._pieces_size = [], 0  # it is whole now
            return True
        if not _is_told(event) or self._pieces_size > KEPT_BYTES:
            return False
        self._pieces.append(write_piece(self.run_id, event))
        self._pieces_size += len(self._pieces[-1])
        return True

    def read(self) -> list[tuple[int, bytes]]:
        """Reads the log on; in a thread, and by one at a time."""
        return [(line.sequence, write_frame(line)) for line in self._tail.read()]

    def publish(self, frames: Sequence[tuple[int, bytes]], volatile: bytes = b"") -> bool:
        """Hands out what was read, and what is in no log; returns whether that is anything."""
        volatile += b"".join(self._pieces)
        self._pieces, self._pieces_size = [], 0
        self._fresh = (self.last, b"".join(frame for _, frame in frames))
        for number, frame in frames:
            self._frames.append((number, frame))
            self._size += len(frame)
            self.last = number
        while self._size > KEPT_BYTES:
            number, frame = self._frames.popleft()
            self._size -= len(frame)
            self.base = number
        self._volatile = volatile
        if volatile:
            self._volatile_number += 1
        if frames or volatile:
            self.wake()
        return bool(frames or volatile)

    def covers(self, after: int) -> bool:
        """Tells whether all events behind a number, as far as they were read, are here."""
        return after >= self.base or after == self._fresh[0]

    def wake(self) -> None:
        """Wakes those who watch."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


def _is_told(event: HostedEvent) -> bool:
    """Tells whether something that is in no log of a run is told to those who watch it."""
    if not isinstance(event, VisitEvent):
        return isinstance(event, _PIECES)
    while isinstance(event, VisitEvent):
        event = event.event
    return isinstance(event, (*_KINDS, *_PIECES))


class Feeds:
    """Reads the logs of the runs that are watched; for one event loop.

    Args:
        index: Knows where they stand.
    """

    def __init__(self, index: RunIndex) -> None:
        self.index = index
        self.store = index.store
        self._feeds: dict[str, Feed] = {}
        self._told: dict[str, float] = {}
        self._woken = asyncio.Event()
        self._dirty: set[str] = set()
        self._reading: asyncio.Task[None] | None = None

    def hear(self, run_id: str, event: HostedEvent) -> None:
        """Hears of what a host performs."""
        feed = self._feeds.get(run_id)
        if feed is not None and feed.hear(event):
            self.wake(run_id)

    def is_watched(self, run_id: str) -> bool:
        """Tells whether anybody watches a run."""
        feed = self._feeds.get(run_id)
        return feed is not None and feed.watchers > 0

    def wake(self, run_id: str) -> None:
        """Has a log read on soon."""
        self._dirty.add(run_id)
        self._woken.set()

    @contextmanager
    def join(self, run_id: str, last: int) -> Iterator[Feed]:
        """Gives the feed of a run to one who watches it.

        Args:
            last: The number of the last event so far.
        """
        feed = self._feeds.get(run_id)
        if feed is None or feed.is_deleted:
            tail = produce_log(self.store, run_id).tail(last)
            feed = self._feeds[run_id] = Feed(run_id, tail, last)
        feed.watchers += 1
        self.wake(run_id)  # what has come since
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_on())
        try:
            yield feed
        finally:
            feed.watchers -= 1
            if not feed.watchers and self._feeds.get(run_id) is feed:
                del self._feeds[run_id]
            if not self._feeds and self._reading is not None:
                self._reading.cancel()
                self._reading = None

    async def _read_on(self) -> None:
        loop = asyncio.get_running_loop()
        next_look = next_search = loop.time()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_look):
                    await self._woken.wait()
            self._woken.clear()
            names, self._dirty = self._dirty, set()
            now = loop.time()
            is_search = now >= next_search
            if now >= next_look:
                names = {*self._feeds}
                next_look = now + LOOK_SECONDS
            if is_search:
                next_search = now + DELETED_SECONDS
            feeds = [each for each in map(self._feeds.get, names) if each is not None]
            if feeds:
                await self._serve(feeds, now, is_search=is_search)
            await asyncio.sleep(0)  # those who were woken send what they took
            await asyncio.sleep(min(PAUSE_SECONDS, loop.time() - now))

    async def _serve(self, feeds: list[Feed], now: float, *, is_search: bool) -> None:
        found = await asyncio.to_thread(self._read, feeds, is_search=is_search)
        for feed, frames in zip(feeds, found, strict=True):
            if frames:
                self._dirty.add(feed.run_id)  # there may be more than fits one reading
                self._woken.set()
            since = now - self._told.setdefault(feed.run_id, now)
            if feed.publish(frames, KEPT if since > KEEPING_SECONDS and not frames else b""):
                self._told[feed.run_id] = now
            elif feed.is_deleted or feed.error is not None:
                feed.wake()
        self._told = {name: self._told[name] for name in self._told if name in self._feeds}

    def _read(self, feeds: list[Feed], *, is_search: bool) -> list[list[tuple[int, bytes]]]:
        return [self._read_feed(feed, is_search=is_search) for feed in feeds]

    def _read_feed(self, feed: Feed, *, is_search: bool) -> list[tuple[int, bytes]]:
        try:
            if frames := feed.read():
                return frames
            if is_search:
                self.store.read_metadata(feed.run_id)
        except UnknownConversationError:
            feed.is_deleted = True
        except StoreError as error:
            feed.error = error
        return []
