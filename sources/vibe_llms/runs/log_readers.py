"""Reader of one run's log, shared by all its subscribers in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import Final

from vibe_llms.conversations.run_logs.log import LogLine, RunLog
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import ConverseError, UnknownConversationError
from vibe_llms.runs.recent import KEPT_BYTES, RecentLines, Volatile
from vibe_llms.runs.resting import MARKS, RestState

KEEP_ALIVE_SECONDS: Final = 15.0
"""Longest interval without data for subscribers, if there is a keep-alive to send."""

_GENERATED: Final = frozenset({"generation.failed", "generation.finished"})
"""Words of events after which the parts of a response are of no use."""

_FULL_LINES: Final = 256
_FULL_BYTES: Final = 1 << 16
"""Number of lines or bytes from which a read may be incomplete."""


class LogReader:
    """Reader of one run's log, which receives published lines and reads all other lines.

    Attributes:
        run_id: The run.
        recent: Lines that were handed out last.
        volatile: Data that is in no log.
        rest: Whether the run is over.
        error: Reason why reading ended early: the run was deleted, or its log cannot be read.
        changed: Set when there is more to receive; then replaced by a new event.
        subscribers: Number of subscriptions.
        is_behind: Whether the log has to be read.
        is_written_here: Whether a line was published since the last poll.
        ending: Closed with the last subscription.

    Args:
        last: Number of the line behind which to begin.
        encode: Encodes a line for subscribers.
    """

    def __init__(
        self, run_id: str, log: RunLog, last: int, encode: Callable[[LogLine], bytes]
    ) -> None:
        self.run_id = run_id
        self.recent = RecentLines(last)
        self.volatile = Volatile()
        self.rest = RestState()
        self.error: ConverseError | None = None
        self.changed = asyncio.Event()
        self.subscribers = 0
        self.is_behind, self.is_written_here = True, False
        self._handed_out = asyncio.get_running_loop().time()
        self.ending = ExitStack()
        self._log = log
        self._encode = encode
        self._tail, self._tail_at = log.tail(last), last
        self._received = last
        self._pending: list[tuple[int, bytes]] = []
        self._pending_bytes = 0
        self._created: datetime | None = None

    # --- lines in --------------------------------------------------------------------------------

    def receive(self, line: LogLine) -> None:
        """Receive a published line; if it is not the next line, the log has to be read."""
        self.is_written_here = True
        if line.sequence == self._received + 1 and self._pending_bytes <= KEPT_BYTES:
            self._add(line)
        elif line.sequence > self._received:
            self.is_behind = True

    def begin_reading(self) -> int:
        """Return the number behind which to read the log now."""
        self.is_behind = self.is_written_here = False
        return self._received

    def read(self, after: int) -> Sequence[LogLine]:
        """Read the next lines behind a number. Does file work; one thread at a time."""
        if self._tail_at != after:
            self._tail = self._log.tail(after)
        lines = self._tail.read()
        self._tail_at = lines[-1].sequence if lines else after
        return lines

    def add_read(self, lines: Sequence[LogLine]) -> None:
        """Take lines that were read; some may have been published in the meantime."""
        for line in lines:
            if line.sequence > self._received:
                self._add(line)
        has_many_lines = len(lines) >= _FULL_LINES
        if has_many_lines or sum(len(each.data) for each in lines) > _FULL_BYTES:
            self.is_behind = True

    def _add(self, line: LogLine) -> None:
        data = self._encode(line)
        self._pending.append((line.sequence, data))
        self._pending_bytes += len(data)
        self._received = line.sequence
        if line.word in MARKS:
            self.rest.feed(line)
        if line.word in _GENERATED:
            self.volatile.clear()

    def ensure_same(self, store: ConversationStore, after: int) -> None:
        """Check that the run still exists, and is the same one. Does file work.

        Args:
            after: Number of a line that it had.

        Raises:
            UnknownConversationError: The run was deleted; another may have its name.
        """
        created = store.read_metadata(self.run_id).created
        if self._created is None and after:
            last = self._log.read_last()
            is_same = last is not None and last.sequence >= after
        else:
            is_same = self._created in (None, created)
        if not is_same:
            raise UnknownConversationError(identity=self.run_id)
        self._created = created

    # --- lines out -------------------------------------------------------------------------------

    def hand_out(self, now: float, keep_alive: bytes = b"") -> None:
        """Hand out new data and wake the subscribers; after a long pause, hand out a keep-alive."""
        lines, self._pending, self._pending_bytes = self._pending, [], 0
        self.recent.add(lines)
        is_quiet = not lines and now - self._handed_out > KEEP_ALIVE_SECONDS
        if self.volatile.hand_out(keep_alive if is_quiet else b"") or lines:
            self._handed_out = now
            self.wake()
        elif self.error is not None:
            self.wake()

    def wake(self) -> None:
        """Wake the subscribers."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
