"""The log of a conversation that is in no file: it ends with its process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from vibe_llms.conversations.run_logs.lines import (
    find_base,
    open_envelope,
    read_envelope,
    read_head,
    write_logged,
)
from vibe_llms.conversations.run_logs.log import PIECE_BYTES, LoggedEvent, LogLine, describe_busy
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import Finding
from vibe_llms.messages.identities import Moments

_LINES: Final = 256


class _Content(NamedTuple):
    """What a log has, in one value: whoever reads it sees the old one or the new one.

    Attributes:
        compacted: The events up to the last compaction.
        base: The number of the last of these.
        entries: What came behind them.
    """

    compacted: Sequence[LoggedEvent]
    base: int
    entries: list[tuple[datetime, str, LogEvent]]


class MemoryLog:
    """A log that forgets everything when it is dropped; see :class:`RunLog`."""

    notices: tuple[Finding, ...] = ()

    def __init__(self) -> None:
        self._content = _Content((), 0, [])
        self._claim = threading.Lock()
        self._moments = Moments()

    def claim(self) -> None:
        """Claims the log until :meth:`close`. Raises StoreError where another run has it."""
        if not self._claim.acquire(blocking=False):
            raise describe_busy()
        self._moments = Moments()

    async def write(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Appends events."""
        return self.append(run_id, *events)

    async def secure(self, sequence: int) -> None:
        """Does nothing: this log does not survive its process."""

    def append(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Appends events."""
        content = self._content
        for event in events:
            content.entries.append((self._moments.access(), run_id, event))
        return content.base + len(content.entries)

    def adopt(self, lines: Sequence[bytes]) -> None:
        """Appends lines of another log."""
        self._content = self._join(self._content, lines)

    def _join(self, content: _Content, lines: Sequence[bytes]) -> _Content:
        read = [open_envelope(read_envelope(line)) for line in lines]
        if (found := find_base(lines)) is not None:  # then these are all
            place, base = found
            content = _Content(read[: place + 1], base, content.entries)
            read = read[place + 1 :]
        new = [(each.timestamp, each.run_id, each.event) for each in read]
        return content._replace(entries=[*content.entries, *new])

    def replace(self, lines: Sequence[bytes], until: int) -> None:
        """Puts lines in the place of all up to a number."""
        content = self._content
        behind = content.entries[until - content.base :]
        joined = self._join(content._replace(entries=[]), lines)
        self._content = joined._replace(entries=[*joined.entries, *behind])
        self.close()

    def synchronize(self) -> None:
        """Does nothing, as :meth:`secure`."""

    def read(self, *, after: int = 0) -> Sequence[LoggedEvent]:
        """Returns the events after a sequence number."""
        compacted, base, entries = self._content
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
        """Returns the last event."""
        compacted, base, entries = self._content
        if not entries:
            return compacted[-1] if compacted else None
        return self.read(after=base + len(entries) - 1)[0]

    def measure(self) -> tuple[object, int] | None:
        """Return which log this is, and the number of its last event."""
        last = self.read_last()
        return None if last is None else (id(self), last.sequence)

    def tail(self, after: int = 0) -> MemoryTail:
        """Returns what reads the log on from a number."""
        return MemoryTail(self, after)

    @property
    def is_claimed(self) -> bool:
        """Whether a run has claimed it."""
        return self._claim.locked()

    def close(self) -> None:
        """Gives the claim up; may be called again."""
        if self._claim.locked():
            self._claim.release()


class MemoryTail:
    """Reads such a log on from a number; see :class:`.log.LogTail`."""

    def __init__(self, log: MemoryLog, after: int) -> None:
        self._log = log
        self._after = after

    def read_raw(self, most: int = PIECE_BYTES) -> tuple[bytes, int]:
        """Returns the next events as lines."""
        lines = self._read(most)
        return b"".join([line.data + b"\n" for line in lines]), self._after

    def read(self) -> Sequence[LogLine]:
        """Returns the next events."""
        return self._read(PIECE_BYTES)

    def _read(self, most: int) -> list[LogLine]:
        lines = []
        for each in itertools.islice(self._log.read(after=self._after), _LINES):
            lines.append(line := read_head(write_logged(each)))
            self._after = line.sequence
            most -= len(line.data)
            if most <= 0:
                break
        return lines
