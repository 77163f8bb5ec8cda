"""Subscriptions to the logs of runs: each line once, in order, from any number on.

A reader keeps the last lines of a log for all its subscribers, and a subscription has a number and
no queue. Lines that this process writes are published to the reader. It reads the log for lines of
other processes; a subscriber that is slower than the reader's buffer reads the log itself.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from vibe_llms.conversations.run_logs.log import PIECE_BYTES, LogLine, LogTail, RunLog
from vibe_llms.conversations.run_logs.publishing import subscribe
from vibe_llms.exceptions import (
    CorruptionError,
    RequestError,
    Stage,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.log_readers import LogReader

_LOGGER = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.1
"""Shortest time between two polls of logs that other processes may write."""

LONGEST_POLL_SECONDS: Final = 0.5
_PAUSE_FACTOR: Final = 20
"""Time between two polls, as a multiple of the duration of a poll, within the bounds."""

PAUSE_SECONDS: Final = 0.1
"""Longest pause after lines were handed out, so that lines that arrive in it go out together. The
pause is as long as handing out took: the more subscribers, the larger the batches."""

REST_CHECK_SECONDS: Final = 2.0
"""Interval at which a subscription that ends with its run checks whether the run is over."""

DELETION_CHECK_SECONDS: Final = 2.0
"""Interval at which the reader checks for deleted runs."""

TOTAL_BEHIND_BYTES: Final = 1 << 24
"""Approximate memory for all subscribers that are behind: the more of them there are, the smaller
the pieces that they read, but no smaller than the next constant."""

_MIN_BYTES: Final = 1 << 13

_NEAR_LINES: Final = 64
"""A new reader begins where its first subscriber does if that is at most so many lines behind."""


@frozen
class LineFormat:
    """Encoding of lines for subscribers.

    Attributes:
        encode: Encodes one line.
        encode_all: Encodes lines as they are in the log, each with its end.
        keep_alive: Sent to subscribers when nothing happens; empty for nothing.
    """

    encode: Callable[[LogLine], bytes] = lambda line: line.data + b"\n"
    encode_all: Callable[[bytes], bytes] = lambda lines: lines
    keep_alive: bytes = b""


def ensure_reached(number: int, last: int) -> None:
    """Raise RequestError if a log does not reach a number yet."""
    if number > last:
        detail = f"Event {number} does not exist yet; the last event of this run is {last}."
        raise RequestError(path="event", detail=detail, stage=Stage.FRAME)


class LogSubscriptions:
    """Subscriptions to the runs of a store, for one event loop.

    Args:
        index: Index of the runs.
        form: Encoding of what subscribers receive; by default lines as they are in the log.
    """

    def __init__(self, index: RunIndex, form: LineFormat | None = None) -> None:
        self.index = index
        self.form = form or LineFormat()
        self.behind = 0  # subscriptions that read the log themselves
        self._readers: dict[str, LogReader] = {}
        self._changed: set[str] = set()
        self._woken = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    @contextmanager
    def subscribe(
        self, run_id: str, after: int, last: int, *, ends: bool = False
    ) -> Iterator[Subscription]:
        """Subscribe to the log of a run, until the block ends.

        Args:
            after: Number of the last line that the caller knows.
            last: Number of the last line so far.
            ends: End when the run has ended or was stopped, after its last line.
        """
        reader = self._join(run_id, after, last)
        subscription = Subscription(self, reader, after, last, ends=ends)
        try:
            yield subscription
        finally:
            subscription.close()
            reader.subscribers -= 1
            if not reader.subscribers:
                reader.ending.close()
                if self._readers.get(run_id) is reader:
                    del self._readers[run_id]
            if not self._readers and self._serving is not None:
                self._serving.cancel()
                self._serving = None

    def is_watched(self, run_id: str) -> bool:
        """Tell whether a run has subscribers."""
        reader = self._readers.get(run_id)
        return reader is not None and reader.subscribers > 0

    def read_soon(self, run_id: str) -> None:
        """Read the log of a run soon, if it has subscribers."""
        reader = self._readers.get(run_id)
        if reader is not None:
            reader.is_behind = True
            self._mark_changed(run_id)

    def send_transient(self, run_id: str, data: bytes) -> None:
        """Pass data that is in no log to those subscribers of a run that are up to date."""
        reader = self._readers.get(run_id)
        if reader is not None and reader.volatile.add(data):
            self._mark_changed(run_id)

    def end(self, run_id: str) -> None:
        """End the subscriptions to a run that was deleted.

        A later run may get the same id, such as one requested with the same key. Its lines have
        the same numbers as these, so its subscribers must not share a reader with these.
        """
        reader = self._readers.pop(run_id, None)
        if reader is not None:
            reader.error = UnknownConversationError(identity=run_id)
            reader.wake()

    # --- readers ---------------------------------------------------------------------------------

    def _join(self, run_id: str, after: int, last: int) -> LogReader:
        reader = self._readers.get(run_id)
        if reader is None or reader.error is not None:
            # One that has failed stays until its subscribers have taken the error.
            log = self.index.store.open_log(run_id)
            # If its first subscriber is near the end, the reader reads the log for it, too.
            start = after if last - after <= _NEAR_LINES else last
            reader = LogReader(run_id, log, start, self.form.encode)
            self._readers[run_id] = reader
            self._receive_published(reader, log)
            self._mark_changed(run_id)  # for lines that were written since
        reader.subscribers += 1
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
            self._serving.add_done_callback(self._fail)
        return reader

    def _receive_published(self, reader: LogReader, log: RunLog) -> None:
        topic = log.topic
        if topic is None:
            return
        loop, thread = asyncio.get_running_loop(), threading.get_ident()

        def receive(line: LogLine) -> None:
            if threading.get_ident() == thread:
                reader.receive(line)
                self._mark_changed(reader.run_id)
            else:
                with suppress(RuntimeError):  # the loop is closed, and so are its subscriptions
                    loop.call_soon_threadsafe(receive, line)

        reader.ending.enter_context(subscribe(topic, receive))

    def _mark_changed(self, run_id: str) -> None:
        self._changed.add(run_id)
        self._woken.set()

    def _fail(self, serving: asyncio.Task[None]) -> None:
        """End all subscriptions when nothing reads for them; they would wait forever."""
        if serving.cancelled():
            return
        if self._serving is serving:
            self._serving = None
        _LOGGER.error("logs of watched runs are not read", exc_info=serving.exception())
        detail = "Reading the events of runs failed."
        for reader in self._readers.values():
            reader.error = StoreError(detail=detail, remedy="Watch it again.")
            reader.wake()

    # --- reading ---------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Read logs and hand out lines: of the runs that changed, and of all runs at each poll."""
        loop = asyncio.get_running_loop()
        next_poll = loop.time()
        next_deletion_check = next_poll + DELETION_CHECK_SECONDS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_poll):
                    await self._woken.wait()
            self._woken.clear()
            names, self._changed = self._changed, set()
            now = loop.time()
            is_poll = now >= next_poll
            is_search = is_poll and now >= next_deletion_check  # only a poll covers all runs
            if is_poll:
                names = {*self._readers}
                for reader in self._readers.values():
                    # A process that writes here is the only writer, and publishes its lines.
                    if not reader.is_written_here:
                        reader.is_behind = True
                    reader.is_written_here = False
            if is_search:
                next_deletion_check = now + DELETION_CHECK_SECONDS
            readers = [each for each in map(self._readers.get, names) if each is not None]
            if behind := [each for each in readers if each.is_behind]:
                await self._read_on(behind, is_search=is_search)
            for reader in readers:
                reader.hand_out(now, self.form.keep_alive)
            if is_poll:
                pause = min(_PAUSE_FACTOR * (loop.time() - now), LONGEST_POLL_SECONDS)
                next_poll = now + max(POLL_SECONDS, pause)
            await asyncio.sleep(0)  # subscribers that were woken send what they took
            await asyncio.sleep(min(PAUSE_SECONDS, loop.time() - now))

    async def _read_on(self, readers: Sequence[LogReader], *, is_search: bool) -> None:
        starts = [each.begin_reading() for each in readers]

        def read_all() -> list[Sequence[LogLine]]:
            pairs = zip(readers, starts, strict=True)
            return [self._read(reader, after, is_search=is_search) for reader, after in pairs]

        for reader, lines in zip(readers, await asyncio.to_thread(read_all), strict=True):
            reader.add_read(lines)
            if reader.is_behind:
                self._mark_changed(reader.run_id)

    def _read(self, reader: LogReader, after: int, *, is_search: bool) -> Sequence[LogLine]:
        try:
            if is_search:
                reader.ensure_same(self.index.store, after)
            return reader.read(after)
        except StoreError as error:  # also of a run that was deleted
            reader.error = error
        return []


class Subscription:
    """Subscription to the log of a run; see :meth:`LogSubscriptions.subscribe`.

    Attributes:
        after: Number of the last line that was received.
    """

    def __init__(
        self, owner: LogSubscriptions, reader: LogReader, after: int, last: int, *, ends: bool
    ) -> None:
        self.after = after
        self._owner = owner
        self._reader = reader
        self._last = last
        self._ends = ends
        self._volatile = reader.volatile.take(0)[0]
        self._tail: LogTail | None = None  # while it is behind what the reader keeps

    async def receive(self) -> bytes:
        """Return the next lines, encoded; wait for them. Empty when the run is over.

        Raises:
            UnknownConversationError: The run was deleted.
            StoreError: The log cannot be read.
        """
        reader, recent = self._reader, self._reader.recent
        while True:
            changed = reader.changed  # taken before reading, so that no later change is missed
            data = recent.take(self.after)
            if data is None:
                data = await self._read_behind()
            else:
                self.close()
                self.after = max(self.after, recent.last)
            if not data and self.after >= recent.last:
                self._volatile, data = reader.volatile.take(self._volatile)
            if data:
                return data
            if reader.error is not None:
                raise reader.error
            if not self._ends:
                await changed.wait()
                continue
            if await self._is_over():
                return b""
            try:
                async with asyncio.timeout(REST_CHECK_SECONDS):
                    await changed.wait()
            except TimeoutError:
                reader.rest.decision = None  # a run may come to rest without a line

    async def _read_behind(self) -> bytes:
        """Read the log behind the last line that was received."""
        owner = self._owner
        if self._tail is None:
            self._tail = owner.index.store.open_log(self._reader.run_id).tail(self.after)
            owner.behind += 1
        max_bytes = max(_MIN_BYTES, min(PIECE_BYTES, TOTAL_BEHIND_BYTES // owner.behind))
        data, self.after = await asyncio.to_thread(self._read_piece, self._tail, max_bytes)
        return data

    def _read_piece(self, tail: LogTail, max_bytes: int) -> tuple[bytes, int]:
        lines, last = tail.read_raw(max_bytes)
        try:
            return self._owner.form.encode_all(lines), last
        except UNREADABLE as error:
            detail = f"A line behind event {self.after} does not read: {error}."
            raise CorruptionError(path=self._reader.run_id, detail=detail) from error

    def close(self) -> None:
        """Stop reading the log separately."""
        if self._tail is not None:
            self._tail = None
            self._owner.behind -= 1

    async def _is_over(self) -> bool:
        """Tell whether the run is over, and all its lines were received."""
        reader, rest = self._reader, self._reader.rest
        if self.after < max(self._last, reader.recent.last) or not rest.may_be_over:
            return False
        if rest.decision is None or rest.decision[0] != self.after:
            rest.decision = await asyncio.to_thread(self._read_rest)
        number, is_over = rest.decision
        if number > self.after:
            self._owner.read_soon(reader.run_id)
        return is_over and number <= self.after

    def _read_rest(self) -> tuple[int, bool]:
        try:
            return self._owner.index.read_rest(self._reader.run_id)
        except UnknownConversationError:
            return 0, False
