"""What those who watch runs are sent: each event is written once, for all who watch.

A feed keeps the last frames of one run's log, and a watcher has a number, no queue. Lines that are
written in this process are told as they are written; the log itself is read for what another
process has written there, and by whoever is slower than what is kept, until it has caught up.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Final

from vibe_llms.agents.performing import HostedEvent
from vibe_llms.conversations.run_logs.announcing import find_place, hearing
from vibe_llms.conversations.run_logs.log import PIECE_BYTES, LogLine, LogTail, RunLog
from vibe_llms.daemons.agents.feed import Feed
from vibe_llms.daemons.agents.frames import KEPT
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.runs.indexing import RunIndex

_LOGGER = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5
"""How often logs are looked at that another process may write."""

PAUSE_SECONDS: Final = 0.1
"""How long is waited at most after frames were handed out: what comes meanwhile goes out together.
It is as long as handing them out took, so that the more watch, the more goes out at once."""

DELETED_SECONDS: Final = 2.0
KEEPING_SECONDS: Final = 15.0

BEHIND_BYTES: Final = 1 << 24
"""So much is held at once, about, of what those are sent who are behind, as they may not take it;
the more of them there are, the smaller the pieces, down to the least."""

_LEAST_BYTES: Final = 1 << 13

_NEAR: Final = 64
"""So many events behind the last, one who is the first to watch begins with the feed."""


class Feeds:
    """Hears of the runs that are watched, and reads their logs; for one event loop.

    Args:
        index: Knows where they stand.
    """

    def __init__(self, index: RunIndex) -> None:
        self.index = index
        self.store = index.store
        self._feeds: dict[str, Feed] = {}
        self._behind = 0
        self._told: dict[str, float] = {}
        self._woken = asyncio.Event()
        self._dirty: set[str] = set()
        self._reading: asyncio.Task[None] | None = None

    def hear(self, run_id: str, event: HostedEvent) -> None:
        """Hears of what a host performs."""
        feed = self._feeds.get(run_id)
        if feed is not None and feed.hear(event):
            self._note(run_id)

    def is_watched(self, run_id: str) -> bool:
        """Tells whether anybody watches a run."""
        feed = self._feeds.get(run_id)
        return feed is not None and feed.watchers > 0

    def wake(self, run_id: str) -> None:
        """Has a log read on soon."""
        feed = self._feeds.get(run_id)
        if feed is not None:
            feed.is_behind = True
            self._note(run_id)

    def end(self, run_id: str) -> None:
        """Tells at once that there is no such run any more.

        Another may come under its name, as of an order with a key: whoever watches then is no
        longer one of those that watch now, for its events are counted from the first again.
        """
        feed = self._feeds.pop(run_id, None)
        if feed is not None:
            feed.is_deleted = True
            feed.wake()

    def _note(self, run_id: str) -> None:
        self._dirty.add(run_id)
        self._woken.set()

    @contextmanager
    def join(self, run_id: str, after: int, last: int) -> Iterator[Feed]:
        """Gives the feed of a run to one who watches it.

        Args:
            after: The number of the event that they have seen last.
            last: The number of the last event so far.
        """
        feed = self._feeds.get(run_id)
        if feed is None or feed.is_deleted or feed.error is not None:
            # One that has ended stays for as long as one who watched does not take its last word.
            log = self.store.open_log(run_id)
            # So near to the end, reading on serves the first who watches as well.
            feed = Feed(run_id, log, after if last - after <= _NEAR else last)
            self._feeds[run_id] = feed
            feed.ending.enter_context(self._hearing(feed, log))
            self._note(run_id)  # what has come since
        feed.watchers += 1
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_on())
            self._reading.add_done_callback(self._tell_of_end)
        try:
            yield feed
        finally:
            feed.watchers -= 1
            if not feed.watchers:
                feed.ending.close()
                if self._feeds.get(run_id) is feed:
                    del self._feeds[run_id]
            if not self._feeds and self._reading is not None:
                self._reading.cancel()
                self._reading = None

    @contextmanager
    def reading(self, run_id: str, after: int) -> Iterator[LogTail]:
        """Gives the log behind a number to one who is behind what a feed keeps."""
        self._behind += 1
        try:
            yield self.store.open_log(run_id).tail(after)
        finally:
            self._behind -= 1

    @property
    def piece_bytes(self) -> int:
        """How much one who is behind may be sent at once."""
        return max(_LEAST_BYTES, min(PIECE_BYTES, BEHIND_BYTES // self._behind))

    def _tell_of_end(self, reading: asyncio.Task[None]) -> None:
        """Ends the streams of all who watch, where nobody reads for them any more.

        They would wait for ever. Whoever comes back has logs read anew, from where they were.
        """
        if reading.cancelled():
            return
        if self._reading is reading:
            self._reading = None
        _LOGGER.error("who watches runs is told no more", exc_info=reading.exception())
        detail = "What happens in runs could not be read on."
        for feed in self._feeds.values():
            feed.error = StoreError(detail=detail, remedy="Watch it again.")
            feed.wake()

    def _hearing(self, feed: Feed, log: RunLog) -> AbstractContextManager[None]:
        place = find_place(log)
        if place is None:
            return nullcontext()
        loop, thread = asyncio.get_running_loop(), threading.get_ident()

        def add(line: LogLine) -> None:
            feed.add(line)
            self._note(feed.run_id)

        def hear(line: LogLine) -> None:
            if threading.get_ident() == thread:
                add(line)
            else:
                with suppress(RuntimeError):  # the loop is over, and so are those who watch
                    loop.call_soon_threadsafe(add, line)

        return hearing(place, hear)

    async def _read_on(self) -> None:
        loop = asyncio.get_running_loop()
        next_look = loop.time()
        next_search = next_look + DELETED_SECONDS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_look):
                    await self._woken.wait()
            self._woken.clear()
            names, self._dirty = self._dirty, set()
            now = loop.time()
            is_look = now >= next_look
            is_search = is_look and now >= next_search  # else those are passed over that are quiet
            if is_look:
                names = {*self._feeds}
                next_look = now + LOOK_SECONDS
                for feed in self._feeds.values():
                    # Who writes here writes alone, and tells of it.
                    feed.is_behind |= not feed.is_busy
                    feed.is_busy = False
            if is_search:
                next_search = now + DELETED_SECONDS
            feeds = [each for each in map(self._feeds.get, names) if each is not None]
            if feeds:
                await self._serve(feeds, now, is_search=is_search)
            await asyncio.sleep(0)  # those who were woken send what they took
            await asyncio.sleep(min(PAUSE_SECONDS, loop.time() - now))

    async def _serve(self, feeds: list[Feed], now: float, *, is_search: bool) -> None:
        behind = [(feed, feed.begin_reading()) for feed in feeds if feed.is_behind]
        if behind:
            found = await asyncio.to_thread(self._read, behind, is_search=is_search)
            for (feed, _), lines in zip(behind, found, strict=True):
                feed.add_read(lines)
        for feed in feeds:
            if feed.is_behind:
                self._note(feed.run_id)
            since = now - self._told.setdefault(feed.run_id, now)
            if feed.publish(KEPT if since > KEEPING_SECONDS and not feed.is_waiting else b""):
                self._told[feed.run_id] = now
            elif feed.is_deleted or feed.error is not None:
                feed.wake()
        self._told = {name: self._told[name] for name in self._told if name in self._feeds}

    def _read(
        self, behind: Sequence[tuple[Feed, int]], *, is_search: bool
    ) -> list[Sequence[LogLine]]:
        return [self._read_feed(feed, after, is_search=is_search) for feed, after in behind]

    def _read_feed(self, feed: Feed, after: int, *, is_search: bool) -> Sequence[LogLine]:
        try:
            if is_search:
                feed.find(self.store, after)
            return feed.read(after)
        except UnknownConversationError:
            feed.is_deleted = True
        except StoreError as error:
            feed.error = error
        return []
