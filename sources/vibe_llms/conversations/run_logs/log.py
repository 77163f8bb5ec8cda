"""Log of a conversation's runs: numbered events, in order, append-only.

One run at a time may write to a log; any process may read it concurrently, from any number on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Final, Protocol

from vibe_llms.events.engine import RunEndedEvent, RunSuspendedEvent
from vibe_llms.events.flow import FlowEndedEvent, LogEvent
from vibe_llms.exceptions import CorruptionError, Finding, StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import is_full

PATIENCE_SECONDS: Final = 2.0
"""Maximum wait for another process to release the log."""

PIECE_BYTES: Final = 1 << 17
"""Size of the pieces in which a log is read.

Larger ones are not faster: the system would allocate a new buffer for each, filled with zeros.
"""

ENDS: Final = (FlowEndedEvent, RunEndedEvent)
"""Events that end a run."""

STOPS: Final = (*ENDS, RunSuspendedEvent)
"""Events after which no run is in progress: it has ended or is suspended."""

_PAUSE_SECONDS: Final = 0.02
_FULL_SECONDS: Final = 1.0
_LOGGER: Final = logging.getLogger(__name__)


@frozen(kw_only=True)
class LoggedEvent:
    """An event and its place in the log.

    Attributes:
        sequence: Number of the event in the conversation's log, over all its runs, from 1. Pass
            this position to read the events after it. Numbers are missing only where the log was
            compacted.
        timestamp: Time of the write, in UTC.
        run_id: Id of the run in which it happened.
        event: The event itself.
        kept: In the last event of the compacted part, the number of events that this part has; in
            all others 0.
    """

    sequence: int
    timestamp: datetime
    run_id: str
    event: LogEvent
    kept: int = 0


@frozen
class LogLine:
    """Raw line of the log, for passing an event on without decoding it.

    Attributes:
        sequence: Number of its event.
        word: The type of its event, such as ``run.started``.
        data: JSON in one line, without the line break.
    """

    sequence: int
    word: str
    data: bytes


class LogTail(Protocol):
    """Reader of the events after a number.

    A log may do file I/O; use it in one thread at a time.
    """

    def read(self) -> Sequence[LogLine]:
        """Return the next piece of events, oldest first; empty only if there are none yet.

        Raises:
            CorruptionError: A line cannot be read.
        """

    def read_raw(self, max_bytes: int = PIECE_BYTES) -> tuple[bytes, int]:
        """Return the next raw lines, with their line breaks, and the number of the last.

        This is for passing on many lines; only the last one is decoded and so verified.

        Args:
            max_bytes: Maximum size in bytes; at least one line is returned.

        Raises:
            CorruptionError: The last line cannot be read.
        """


class RunLog(Protocol):
    """Log in which a conversation's runs record their events.

    A writer claims the log before it reads the events of earlier runs, then writes, then closes the
    log.
    """

    @property
    def notices(self) -> tuple[Finding, ...]:
        """Notices, such as a torn line that was set aside."""

    def claim(self) -> None:
        """Claim the log for one run, until :meth:`close`. May read and write files.

        Raises:
            StoreError: Another run has claimed it.
            UnknownConversationError: The conversation is not in the store (yet).
            CorruptionError: The last line of the log cannot be read.
        """

    async def write(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Append events; after this returns, they survive the end of this process.

        Several tasks may write at the same time; each event gets a unique number. If the task is
        cancelled during the write, the cancellation is raised after all is written.

        Args:
            run_id: Id of the run in which they happened.
            events: Events that happened together.
            durable: Whether the caller will call :meth:`secure` next. A log may then secure the
                events in the same step, if that is faster.

        Returns:
            The sequence number of the last, counted from 1 over all runs of the conversation.

        Raises:
            StoreError: The events could not be written, or the log is not claimed; the log is
                unchanged.
        """

    async def secure(self, sequence: int) -> None:
        """Wait until all events up to a number survive a power failure.

        Args:
            sequence: Number that :meth:`write` returned.

        Raises:
            StoreError: The disk reported an error.
        """

    def append(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Append events as :meth:`write` does, for code without an event loop.

        Raises:
            StoreError: As :meth:`write`.
        """

    def synchronize(self) -> None:
        """Block until all events so far survive a power failure.

        Raises:
            StoreError: The disk reported an error.
        """

    def read(self, *, after: int = 0) -> Sequence[LoggedEvent]:
        """Return the events after a sequence number, oldest first; this needs no claim.

        Args:
            after: Number of the last event that the caller knows; 0 for all events.

        Raises:
            CorruptionError: A line cannot be read; the error names file and line.
        """

    def read_last(self) -> LoggedEvent | None:
        """Return the last event without reading the others; ``None`` if the log is empty.

        Raises:
            CorruptionError: The last line cannot be read.
        """

    def measure(self) -> tuple[object, int] | None:
        """Return the identity of the log and its size; ``None`` if it is empty.

        If the measure has not changed, nothing was added. Callers poll it often, for all logs of a
        store. A log without a size returns ``(0, number of its last event)``.
        """

    def tail(self, after: int = 0) -> LogTail:
        """Return a reader of the events after a number, while the log may grow; needs no claim.

        Args:
            after: Number of the last event that the caller knows; 0 for none.
        """

    def close(self) -> None:
        """Release the claim, so that another run may claim the log.

        May be called again. Written events stay readable.
        """

    @property
    def is_claimed(self) -> bool:
        """True if a living process has claimed the log. Does file I/O."""

    def adopt(self, lines: Sequence[bytes]) -> None:
        """Append lines of another log, all or none; the numbering of this log continues.

        Raises:
            StoreError: The lines could not be written, or the log is not claimed.
        """

    def replace(self, lines: Sequence[bytes], until: int) -> None:
        """Replace all lines up to a number, and release the claim.

        Later lines stay unchanged. The replacement is atomic: a crash leaves either the old log or
        the new one.

        Args:
            lines: Lines with rising numbers; the last number is at most ``until``.
            until: Number of the last event that they replace.

        Raises:
            StoreError: The log could not be written, or is not claimed.
        """

    def fencing(self) -> AbstractContextManager[object]:
        """Make this thread's other writes to the store depend on the claim, inside the block.

        A write raises StoreError if another process has taken over the claim. For logs whose claim
        cannot be taken over, this does nothing.
        """

    @property
    def topic(self) -> Hashable | None:
        """Key under which lines are published, equal for all objects of one log.

        ``None`` if the log does not publish them; see :mod:`.publishing`.
        """


class LogDefaults:
    """Base of a log whose claims are never taken over, and which does not publish its lines."""

    __slots__ = ()

    @property
    def topic(self) -> Hashable | None:
        """``None``: subscribers read the log."""
        return None

    def fencing(self) -> AbstractContextManager[object]:
        """Do nothing: no other process takes over the claim."""
        return nullcontext()


def read_events(log: RunLog) -> list[LogEvent]:
    """Return all events of a log, oldest first."""
    return [logged.event for logged in log.read()]


def claim_soon(
    log: RunLog,
    *,
    is_unnecessary: Callable[[], bool] = lambda: False,
    wait_seconds: float = PATIENCE_SECONDS,
) -> bool:
    """Claim a log for a short time; retry while its holder may be releasing the log. Does file I/O.

    Args:
        log: Log to claim.
        is_unnecessary: Checked before each attempt; true ends the attempts.
        wait_seconds: Maximum time to retry.

    Returns:
        True if it is claimed now; False if the claim has become unnecessary.

    Raises:
        StoreError: Another process held the claim all the time, or the log cannot be read.
    """
    deadline = time.monotonic() + wait_seconds
    while not is_unnecessary():
        try:
            log.claim()
        except StoreError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return True
    return False


def claim_at_once(log: RunLog) -> bool:
    """Claim a log, unless another process holds it or it is unavailable. Does file I/O.

    Raises:
        CorruptionError: The log is damaged and cannot be continued.
    """
    try:
        log.claim()
    except CorruptionError:
        raise
    except StoreError:
        return False
    return True


def read_unsettled(log: RunLog) -> list[LogEvent]:
    """Return the events that the next run needs, oldest first.

    These are the events after the last ``RunEndedEvent`` that settles everything before it. The log
    is read from its end, so the cost does not depend on the number of earlier runs.
    """
    last = log.read_last()
    if last is None:
        return []
    window = 1
    while True:
        after = max(0, last.sequence - window)
        recent = [logged.event for logged in log.read(after=after)]
        for index in reversed(range(len(recent))):
            event = recent[index]
            if isinstance(event, RunEndedEvent) and event.settles:
                return recent[index + 1 :]
        if not after:
            return recent
        window *= 16


async def wait_for_room(error: Exception) -> None:
    """Sleep briefly after a disk-full error, since space may be freed.

    Raises:
        Exception: The error, if it is another error, or if the task is being cancelled.
    """
    task = asyncio.current_task()
    is_ending = task is not None and task.cancelling()
    if is_ending or not (isinstance(error, StoreError) and is_full(error)):
        raise error
    _LOGGER.warning("a run waits for space: %s", error)
    await asyncio.sleep(_FULL_SECONDS)


def describe_busy(path: str = "") -> StoreError:
    """Describe the error that another run has the log."""
    return StoreError(
        path=path,
        detail="A run of this conversation is already active"
        + (f": it keeps {path} locked." if path else "."),
        remedy="Wait until it ends, or stop it; or fork the conversation and run the fork.",
    )
