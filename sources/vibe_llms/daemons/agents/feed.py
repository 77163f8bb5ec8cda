"""The last frames of one run's log, for all who watch it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import Final, get_args

import msgspec

from vibe_llms.agents.performing import HostedEvent
from vibe_llms.conversations.run_logs.announcing import find_place
from vibe_llms.conversations.run_logs.log import LogLine, RunLog
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.daemons.agents.frames import write_frame, write_piece
from vibe_llms.events.engine import GenerationFailedEvent, GenerationFinishedEvent
from vibe_llms.events.flow import LogEvent, VisitEvent
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
)
from vibe_llms.exceptions import StoreError, UnknownConversationError

KEPT_BYTES: Final = 1 << 16
"""How much of each run's frames is kept for those who are a little behind."""

_MUCH: Final = 1 << 16
"""Where so many bytes came of a log at once, there may be more."""

_REQUESTED: Final = "run.requested"
_BEGUN: Final = frozenset({"run.started", "flow.started"})
_ENDED: Final = frozenset({"run.ended", "flow.ended"})
_MARKS: Final = frozenset({_REQUESTED, "run.stop_requested", *_BEGUN, *_ENDED})
"""Only behind a stop or an end, and before it is asked for again, is a run at rest. It is for
certain where it has ended that began and was not asked for meanwhile."""

_GOES_ON: Final = ("cancelled", "waiting")
"""For which reasons a run ends that goes on."""


class _Ended(msgspec.Struct):
    reason: str


class _EndedLine(msgspec.Struct):
    event: _Ended


_read_ended: Final = msgspec.json.Decoder(_EndedLine).decode

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
        last: The number of the last event that was handed out.
        base: All events behind this number, up to the last, are kept.
        changed: Is set when there is more; then there is another in its place.
        is_behind: Whether the log may have what nobody has told us.
        is_read: Whether it was read since the first began to watch.
        is_busy: Whether a line was told since it was last looked at: its writer is in this process.
        may_rest: Whether the run may have come to rest by the last event.
        created: When its conversation was, as far as anybody has looked.
        is_deleted: Whether there is no such run any more.
        error: Why its log cannot be read; ``None`` where it can.
        watchers: How many there are.
        rest: Whether it had come to rest by the event of a number, as far as anybody has asked.
        ending: What ends with the last who watches.

    Args:
        log: Of the run.
        last: The number of the event behind which to begin.
    """

    def __init__(self, run_id: str, log: RunLog, last: int) -> None:
        self.run_id = run_id
        self.last = self.base = last
        self.changed = asyncio.Event()
        self.is_behind = True
        self.is_read = self.is_busy = False
        self.may_rest = True
        self.created: datetime | None = None
        self.is_deleted = False
        self.error: StoreError | None = None
        self.watchers = 0
        self.rest: tuple[int, bool] | None = None
        self.ending = ExitStack()
        self._log = log
        self._is_announced = find_place(log) is not None
        self._tail, self._read_to = log.tail(last), last
        self._told_to = last
        self._is_begun = False
        self._waiting: list[tuple[int, bytes]] = []
        self._waiting_size = 0
        self._frames: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._fresh: tuple[int, bytes] = (last, b"")
        self._pieces: list[bytes] = []
        self._pieces_size = 0
        self._volatile, self._volatile_number = b"", 0

    # --- what those who watch take ---------------------------------------------------------------

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

    def covers(self, after: int) -> bool:
        """Tells whether all events behind a number, as far as they were read, are here."""
        return after >= self.base or after == self._fresh[0]

    # --- what it is told -------------------------------------------------------------------------

    def hear(self, event: HostedEvent) -> bool:
        """Takes what happens in the run; returns whether there may be something to tell."""
        if isinstance(event, _KINDS):
            if isinstance(event, _ENDS_PIECES):
                self._pieces, self._pieces_size = [], 0  # it is whole now
            if not self._is_announced:
                self.is_behind = True
            return True
        if not _is_told(event) or self._pieces_size > KEPT_BYTES:
            return False
        self._pieces.append(write_piece(self.run_id, event))
        self._pieces_size += len(self._pieces[-1])
        return True

    def add(self, line: LogLine) -> None:
        """Takes a line as it is written; where it is not the next one, the log has to be read."""
        self.is_busy = True
        if line.sequence == self._told_to + 1 and self._waiting_size <= KEPT_BYTES:
            self._wait(line)
        elif line.sequence > self._told_to:
            self.is_behind = True

    def _wait(self, line: LogLine) -> None:
        frame = write_frame(line)
        self._waiting.append((line.sequence, frame))
        self._waiting_size += len(frame)
        self._told_to = line.sequence
        if line.word in _MARKS:
            self._note(line)

    def _note(self, line: LogLine) -> None:
        """Takes note of what a line says of where the run stands; see :class:`.RunFold`."""
        if line.word in _BEGUN:
            self._is_begun = True
            return
        self.may_rest = line.word != _REQUESTED
        if line.word in _ENDED and self._is_begun and _read_reason(line) not in _GOES_ON:
            self.rest = (line.sequence, True)  # nobody has to read the log for it
        self._is_begun = False

    # --- what is read ----------------------------------------------------------------------------

    def begin_reading(self) -> int:
        """Says that the log is about to be read; returns behind which number."""
        self.is_behind = self.is_busy = False
        return self._told_to

    def find(self, store: ConversationStore, after: int) -> None:
        """Looks whether there is such a run, and no other under its name; in a thread.

        Args:
            after: The number of an event that it has had.

        Raises:
            UnknownConversationError: There is not: another process has deleted it.
        """
        created = store.read_metadata(self.run_id).created
        if self.created is None and after:
            last = self._log.read_last()
            is_same = last is not None and last.sequence >= after
        else:
            is_same = self.created in (None, created)
        if not is_same:
            raise UnknownConversationError(identity=self.run_id)
        self.created = created

    def read(self, after: int) -> Sequence[LogLine]:
        """Reads the log on behind a number; in a thread, and by one at a time."""
        if self._read_to != after:
            self._tail = self._log.tail(after)
        lines = self._tail.read()
        self._read_to = lines[-1].sequence if lines else after
        return lines

    def add_read(self, lines: Sequence[LogLine]) -> None:
        """Takes lines that were read; some of them may have been told meanwhile."""
        for line in lines:
            if line.sequence > self._told_to:
                self._wait(line)
        if lines and (not self._is_announced or sum(len(each.data) for each in lines) > _MUCH):
            self.is_behind = True  # there may be more than fits one reading
        if not self.is_read:
            self.is_read = True
            self.wake()  # who has waited to be told whether it is over

    # --- what is handed out ----------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether there is something of the log to be handed out."""
        return bool(self._waiting)

    def publish(self, volatile: bytes = b"") -> bool:
        """Hands out what was told, and what is in no log; returns whether that is anything."""
        frames, self._waiting, self._waiting_size = self._waiting, [], 0
        volatile += b"".join(self._pieces)
        self._pieces, self._pieces_size = [], 0
        self._fresh = (self.last, b"".join([frame for _, frame in frames]))
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

    def wake(self) -> None:
        """Wakes those who watch."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


def _read_reason(line: LogLine) -> str:
    return _read_ended(line.data).event.reason


def _is_told(event: HostedEvent) -> bool:
    """Tells whether something that is in no log of a run is told to those who watch it."""
    if not isinstance(event, VisitEvent):
        return isinstance(event, _PIECES)
    while isinstance(event, VisitEvent):
        event = event.event
    return isinstance(event, (*_KINDS, *_PIECES))
