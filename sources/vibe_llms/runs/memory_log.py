"""The log of a conversation that is in no file: it ends with its process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import Finding
from vibe_llms.messages.identities import Moments
from vibe_llms.runs.lines import find_base, open_envelope, read_envelope, read_head, write_logged
from vibe_llms.runs.log import LoggedEvent, LogLine, describe_busy

_LINES: Final = 256


class MemoryLog:
    """A log that forgets everything when it is dropped; see :class:`RunLog`."""

    notices: tuple[Finding, ...] = ()

    def __init__(self) -> None:
        self._compacted: list[LoggedEvent] = []
        self._base = 0  # the number of the last of these
        self._entries: list[tuple[datetime, str, LogEvent]] = []
        self._claim = threading.Lock()
        self._moments = Moments()

    def claim(self) -> None:
        """Claims the log until :meth:`close`. Raises StoreError where another run has it."""
        if not self._claim.acquire(blocking=False):
            raise describe_busy()
        self._moments = Moments()

    async def write(self, run_id: str, event: LogEvent) -> int:
        """Appends an event."""
        entries = self._entries
        entries.append((self._moments.access(), run_id, event))
        return self._base + len(entries)

    async def secure(self, sequence: int) -> None:
        """Does nothing: this log does not survive its process."""

    def append(self, run_id: str, event: LogEvent) -> int:
        """Appends an event."""
        self._entries.append((self._moments.access(), run_id, event))
        return self._base + len(self._entries)

    def adopt(self, lines: Sequence[bytes]) -> None:
        """Appends lines of another log."""
        found = find_base(lines)
        if found is not None:  # then these are all
            place, self._base = found
            self._compacted = [open_envelope(read_envelope(line)) for line in lines[: place + 1]]
            lines = lines[place + 1 :]
        read = [open_envelope(read_envelope(line)) for line in lines]
        self._entries.extend((each.timestamp, each.run_id, each.event) for each in read)

    def replace(self, lines: Sequence[bytes], until: int) -> None:
        """Puts lines in the place of all up to a number."""
        behind = self._entries[until - self._base :]
        self._entries = []
        self.adopt(lines)
        self._entries += behind
        self.close()

    def synchronize(self) -> None:
        """Does nothing, as :meth:`secure`."""

    def read(self, *, after: int = 0) -> Sequence[LoggedEvent]:
        """Returns the events after a sequence number."""
        start = max(0, after - self._base)
        numbered = enumerate(self._entries[start:], self._base + start + 1)
        return [
            *(each for each in self._compacted if each.sequence > after),
            *(
                LoggedEvent(sequence=sequence, timestamp=timestamp, run_id=run_id, event=event)
                for sequence, (timestamp, run_id, event) in numbered
            ),
        ]

    def read_last(self) -> LoggedEvent | None:
        """Returns the last event."""
        if not self._entries:
            return self._compacted[-1] if self._compacted else None
        return self.read(after=self._base + len(self._entries) - 1)[0]

    def tail(self, after: int = 0) -> MemoryTail:
        """Returns what reads the log on from a number."""
        return MemoryTail(self, after)

    def close(self) -> None:
        """Gives the claim up; may be called again."""
        if self._claim.locked():
            self._claim.release()


class MemoryTail:
    """Reads such a log on from a number; see :class:`.log.LogTail`."""

    def __init__(self, log: MemoryLog, after: int) -> None:
        self._log = log
        self._after = after

    def read(self) -> Sequence[LogLine]:
        """Returns the next events."""
        new = itertools.islice(self._log.read(after=self._after), _LINES)
        lines = [read_head(write_logged(each)) for each in new]
        if lines:
            self._after = lines[-1].sequence
        return lines
