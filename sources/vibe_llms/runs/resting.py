"""Detection that a run is over, from the lines of its log as they pass."""

from __future__ import annotations

from typing import Final

import msgspec

from vibe_llms.conversations.run_logs.log import LogLine

_REQUESTED: Final = "run.requested"
_STARTED: Final = frozenset({"run.started", "flow.started"})
_ENDED: Final = frozenset({"run.ended", "flow.ended"})
MARKS: Final = frozenset({_REQUESTED, "run.stop_requested", *_STARTED, *_ENDED})
"""Words of the lines that :class:`RestState` takes into account."""

_RESUMABLE: Final = ("cancelled", "waiting")
"""Reasons of an end after which a run continues."""


class _Ended(msgspec.Struct):
    reason: str


class _EndedLine(msgspec.Struct):
    event: _Ended


_read_ended: Final = msgspec.json.Decoder(_EndedLine).decode


class RestState:
    """State of a run, judged by the words of its lines only; :class:`.RunFold` has all of it.

    A run is over only behind a stop or an end, and before it is requested again. An end of a run
    that was started, and not requested since, is certain.

    Attributes:
        may_be_over: Whether the run may be over by the last line.
        decision: Number of a line, and whether the run was over by it; ``None`` if undecided.
    """

    def __init__(self) -> None:
        self.may_be_over = True
        self.decision: tuple[int, bool] | None = None
        self._is_started = False

    def feed(self, line: LogLine) -> None:
        """Take the next line into account; its word is one of ``MARKS``."""
        if line.word in _STARTED:
            self._is_started = True
            return
        self.may_be_over = line.word != _REQUESTED
        is_end = line.word in _ENDED and self._is_started
        if is_end and _read_ended(line.data).event.reason not in _RESUMABLE:
            self.decision = (line.sequence, True)  # saves reading the log
        self._is_started = False
