"""Log of runs in memory, which is lost when its process ends."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import attrs

from vibe_llms.conversations.run_logs.log import (
    PIECE_BYTES,
    LogDefaults,
    LoggedEvent,
    LogLine,
    describe_busy,
)
from vibe_llms.conversations.run_logs.log_lines import (
    find_base,
    open_envelope,
    read_envelope,
    read_head,
    write_logged,
)
from vibe_llms.conversations.run_logs.publishing import is_subscribed, publish
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import CodecError, Finding, StoreError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.identities import Moments

_LINES: Final = 256


class _Content(NamedTuple):
    """The events of a log, in one value, so that they are replaced atomically.

    Attributes:
        compacted: The events of the compacted part.
        base: Number of the last of these.
        entries: The time, the run's id and the event of each event after them.
    """

    compacted: Sequence[LoggedEvent]
    base: int
    entries: list[tuple[datetime, str, LogEvent]]


@define(eq=False)
class _Shared:
    """State of a log that all of its users share.

    Attributes:
        epoch: Counts the claims.
        is_claimed: Whether the last claim still holds.
    """

    content: _Content = attrs.field(factory=lambda: _Content((), 0, []))
    lock: threading.Lock = attrs.field(factory=threading.Lock)
    epoch: int = 0
    is_claimed: bool = False


class MemoryLog(LogDefaults):
    """Log in memory; see :class:`RunLog`. It is dropped with its last user."""

    notices: tuple[Finding, ...] = ()

    def __init__(self, shared: _Shared | None = None) -> None:
        self._shared = shared or _Shared()
        self._epoch = 0
        self._moments = Moments()

    def share(self) -> MemoryLog:
        """Return the same log for another user, who claims and closes it independently."""
        return MemoryLog(self._shared)

    @property
    def topic(self) -> Hashable:
        """Key under which lines are published."""
        return self._shared

    def claim(self) -> None:
        """Claim the log until :meth:`close`; raise StoreError if another run has claimed it."""
        shared = self._shared
        with shared.lock:
            if shared.is_claimed:
                raise describe_busy()
            shared.is_claimed = True
            shared.epoch += 1
            self._epoch = shared.epoch
        self._moments = Moments()

    def _ensure_claimed(self) -> None:
        """Raise StoreError if this claim was released, as another run may write by now."""
        shared = self._shared
        if self._epoch and not (shared.is_claimed and self._epoch == shared.epoch):
            raise StoreError(detail="This claim of the log was released, so it cannot be written.")

    async def write(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Append events."""
        return self.append(run_id, *events)

    async def secure(self, sequence: int) -> None:
        """Do nothing: this log does not survive its process."""

    def append(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Append events."""
        self._ensure_claimed()
        content = self._shared.content
        last = content.base + len(content.entries)
        for event in events:
            content.entries.append((self._moments.access(), run_id, event))
        if is_subscribed(self.topic):
            self._publish(last)
        return last + len(events)

    def _publish(self, after: int) -> None:
        for each in self.read(after=after):
            try:
                line = write_logged(each)
            except CodecError:  # subscribers get the error when they read the log
                return
            publish(self.topic, each.sequence, each.event, line)

    def adopt(self, lines: Sequence[bytes]) -> None:
        """Append lines of another log."""
        self._ensure_claimed()
        self._shared.content = self._join(self._shared.content, lines)

    def _join(self, content: _Content, lines: Sequence[bytes]) -> _Content:
        events = [open_envelope(read_envelope(line)) for line in lines]
        if (found := find_base(lines)) is not None:  # the lines begin with the compacted part
            base_index, base = found
            content = _Content(events[: base_index + 1], base, content.entries)
            events = events[base_index + 1 :]
        new = [(each.timestamp, each.run_id, each.event) for each in events]
        return content._replace(entries=[*content.entries, *new])

    def replace(self, lines: Sequence[bytes], until: int) -> None:
        """Replace all lines up to a number."""
        self._ensure_claimed()
        content = self._shared.content
        later = content.entries[until - content.base :]
        joined = self._join(content._replace(entries=[]), lines)
        self._shared.content = joined._replace(entries=[*joined.entries, *later])
        self.close()

    def synchronize(self) -> None:
        """Do nothing, like :meth:`secure`."""

    def read(self, *, after: int = 0) -> Sequence[LoggedEvent]:
        """Return the events after a sequence number."""
        compacted, base, entries = self._shared.content
        start = max(0, after - base)
        numbered = enumerate(entries[start:], base + start + 1)
        return [
            *(each for each in compacted if each.sequence > after),
            *(
                LoggedEvent(sequence=sequence, timestamp=timestamp, run_id=run_id, event=event)
                for sequence, (timestamp, run_id, event) in numbered
            ),
        ]

    def read_last(self) -> LoggedEvent | None:
        """Return the last event."""
        compacted, base, entries = self._shared.content
        if not entries:
            return compacted[-1] if compacted else None
        return self.read(after=base + len(entries) - 1)[0]

    def measure(self) -> tuple[object, int] | None:
        """Return the identity of the log and the number of its last event."""
        last = self.read_last()
        return None if last is None else (id(self._shared), last.sequence)

    def tail(self, after: int = 0) -> MemoryTail:
        """Return a reader that starts after a number."""
        return MemoryTail(self, after)

    @property
    def is_claimed(self) -> bool:
        """True if a run has claimed the log."""
        return self._shared.is_claimed

    def close(self) -> None:
        """Release the claim; may be called again."""
        with self._shared.lock:
            if self._epoch == self._shared.epoch:
                self._shared.is_claimed = False


class MemoryTail:
    """Reader of a log in memory; see :class:`.log.LogTail`."""

    def __init__(self, log: MemoryLog, after: int) -> None:
        self._log = log
        self._after = after

    def read_raw(self, max_bytes: int = PIECE_BYTES) -> tuple[bytes, int]:
        """Return the next events as lines."""
        lines = self._read(max_bytes)
        return b"".join([line.data + b"\n" for line in lines]), self._after

    def read(self) -> Sequence[LogLine]:
        """Return the next events."""
        return self._read(PIECE_BYTES)

    def _read(self, max_bytes: int) -> list[LogLine]:
        lines = []
        room = max_bytes
        for each in itertools.islice(self._log.read(after=self._after), _LINES):
            lines.append(line := read_head(write_logged(each)))
            self._after = line.sequence
            room -= len(line.data)
            if room <= 0:
                break
        return lines
