"""The log of a conversation's runs: what happened, numbered, in order, and only ever appended.

One run at a time may write to it; anybody may read it meanwhile, from any number on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Final, Protocol, runtime_checkable

from vibe_llms.events.engine import RunEndedEvent, RunSuspendedEvent
from vibe_llms.events.flow import FlowEndedEvent, LogEvent
from vibe_llms.exceptions import CorruptionError, Finding, StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import is_full

PATIENCE_SECONDS: Final = 2.0
"""How long somebody who has a log only for a moment is waited for."""

PIECE_BYTES: Final = 1 << 17
"""So much of a log is read at once. More is not faster: buffers so large are given back to the
system each time, and new ones have to be filled with zeros."""

ENDS: Final = (FlowEndedEvent, RunEndedEvent)
"""What says that a run is over, whoever has ended it."""

RESTED: Final = (*ENDS, RunSuspendedEvent)
"""What the log ends with where no run was cut off."""

_PAUSE_SECONDS: Final = 0.02
_FULL_SECONDS: Final = 1.0
_LOGGER: Final = logging.getLogger(__name__)


@frozen(kw_only=True)
class LoggedEvent:
    """An event and its place in the log.

    Attributes:
        sequence: Counts the events of a conversation's log, of all its runs, from 1. Who has
            heard one asks for what comes after it. Numbers are missing only where the log was
            compacted.
        timestamp: When it was written, in UTC.
        run_id: Of the run in which it happened.
        event: What happened.
        kept: Of the last event up to which the log was compacted, how many there are up to it;
            of all others 0.
    """

    sequence: int
    timestamp: datetime
    run_id: str
    event: LogEvent
    kept: int = 0


@frozen
class LogLine:
    """An event as it stands in the log, for whoever passes it on without reading it.

    Attributes:
        sequence: Its number.
        word: The stable word of its event, such as ``run.started``.
        data: JSON in one line, without its end.
    """

    sequence: int
    word: str
    data: bytes


class LogTail(Protocol):
    """Reads a log on from a number. It may do file work; it belongs to one thread at a time."""

    def read(self) -> Sequence[LogLine]:
        """Returns the next events, oldest first: as many as fit a piece, one at least; none where
        there are none yet.

        Raises:
            CorruptionError: A line does not read.
        """

    def read_raw(self, most: int = PIECE_BYTES) -> tuple[bytes, int]:
        """Returns the same as they stand there, each with its end, and the number of the last.

        For whoever passes on many: no more is proved than that the last of them reads.

        Args:
            most: As many as fit so many bytes; one at least.

        Raises:
            CorruptionError: It does not.
        """


class RunLog(Protocol):
    """Where a conversation's runs write down what happens.

    A writer claims the log before it reads what earlier runs have left, writes, and closes it.
    """

    @property
    def notices(self) -> tuple[Finding, ...]:
        """What was found on the way, such as a torn line that was set aside."""

    def claim(self) -> None:
        """Claims the log for one run, until :meth:`close`. May read and write files.

        Raises:
            StoreError: Another run has claimed it.
            UnknownConversationError: The conversation is not in the store (yet).
            CorruptionError: The last line of the log does not read.
        """

    async def write(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Appends events; once this returns, the end of this process does not lose them.

        Several tasks may write at the same time; each event gets a number of its own. Whoever is
        cancelled meanwhile is told so when all is written.

        Args:
            run_id: The run in which they happened.
            events: What happened, at one moment.
            durable: They are to be secured next. A log does that here, if it costs less.

        Returns:
            The sequence number of the last, counted from 1 over all runs of the conversation.

        Raises:
            StoreError: They could not be written, or the log is not claimed; the log is as it was.
        """

    async def secure(self, sequence: int) -> None:
        """Waits until all events up to a number are safe from a loss of power.

        Args:
            sequence: What :meth:`write` returned.

        Raises:
            StoreError: The disk refused.
        """

    def append(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Appends events as :meth:`write` does, for code without an event loop.

        Raises:
            StoreError: As :meth:`write`.
        """

    def synchronize(self) -> None:
        """Waits until all events so far are safe from a loss of power; blocks meanwhile.

        Raises:
            StoreError: The disk refused.
        """

    def read(self, *, after: int = 0) -> Sequence[LoggedEvent]:
        """Returns the events behind a sequence number, oldest first; needs no claim.

        Args:
            after: The number of the last event that the caller knows; 0 for all events.

        Raises:
            CorruptionError: A line does not read; the error names file and line.
        """

    def read_last(self) -> LoggedEvent | None:
        """Returns the last event, ``None`` if there is none, without reading the others.

        Raises:
            CorruptionError: The last line does not read.
        """

    def measure(self) -> tuple[object, int] | None:
        """Return which log this is and how much is in it; ``None`` if it is empty.

        An equal measure says that nothing was added. It is asked of all logs of a store, often.
        A log that cannot tell without reading returns ``(0, number of its last event)``.
        """

    def tail(self, after: int = 0) -> LogTail:
        """Returns what reads the log on from a number while it may grow; needs no claim.

        Args:
            after: The number of the last event that the caller knows; 0 for none.
        """

    def close(self) -> None:
        """Gives the claim up, so that another run may claim the log.

        May be called again. What was written stays readable.
        """


@runtime_checkable
class ClaimedLog(Protocol):
    """A log that can tell whether a run has claimed it now."""

    @property
    def is_claimed(self) -> bool:
        """Whether a living process has claimed it. Does file work."""


@runtime_checkable
class FencedLog(Protocol):
    """A log whose claim others may take over, as one on another machine that is not heard of."""

    def fencing(self) -> AbstractContextManager[object]:
        """While it is entered, this thread stores nothing beside the log unless the claim holds.

        Whatever stores it raises StoreError where another has taken the claim over.
        """


@runtime_checkable
class AdoptingLog(Protocol):
    """A log that takes over lines of another as they are."""

    def adopt(self, lines: Sequence[bytes]) -> None:
        """Appends lines, all or none; the first has the number behind the last that is here.

        Raises:
            StoreError: They could not be written, or the log is not claimed.
        """


@runtime_checkable
class CompactingLog(Protocol):
    """A log whose beginning may be replaced by a shorter one."""

    def replace(self, lines: Sequence[bytes], until: int) -> None:
        """Puts lines in the place of all up to a number, and gives the claim up.

        What is behind stays as it is. A sudden end leaves all that was there before, or all that
        is there after.

        Args:
            lines: With rising numbers; that of the last is at most ``until``.
            until: The number of the last event that they stand for.

        Raises:
            StoreError: It could not be written, or the log is not claimed.
        """


def read_events(log: RunLog) -> list[LogEvent]:
    """Returns all events of a log, oldest first."""
    return [logged.event for logged in log.read()]


def claim_soon(
    log: RunLog,
    *,
    unless: Callable[[], bool] = lambda: False,
    wait_seconds: float = PATIENCE_SECONDS,
) -> bool:
    """Claims a log for a short time; whoever has it may be about to let go of it. Does file work.

    Args:
        log: Whose claim is wanted.
        unless: Tells, before each attempt, that it is wanted no more.
        wait_seconds: How long it is tried.

    Returns:
        Whether it is claimed now; else it is wanted no more.

    Raises:
        StoreError: Somebody has had it all the time, or it cannot be read.
    """
    deadline = time.monotonic() + wait_seconds
    while not unless():
        try:
            log.claim()
        except StoreError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return True
    return False


def is_claimed(log: RunLog) -> bool:
    """Tell whether a living process has claimed a log; ``False`` if the log cannot tell."""
    return isinstance(log, ClaimedLog) and log.is_claimed


def claim_at_once(log: RunLog) -> bool:
    """Claims a log, unless somebody has it, or it cannot be had now. Does file work.

    Raises:
        CorruptionError: Nobody can go on with it.
    """
    try:
        log.claim()
    except CorruptionError:
        raise
    except StoreError:
        return False
    return True


def read_unsettled(log: RunLog) -> list[LogEvent]:
    """Returns the events that runs to come have to know, oldest first.

    They are those behind the last end of a run that has settled all before it. The log is read
    from its end, so that this costs the same however many runs came before.
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
    """Wait a moment after an error, if it says that a disk is full: there may be room again then.

    Raises:
        Exception: The error, where it is another, or the task is being cancelled.
    """
    task = asyncio.current_task()
    is_ending = task is not None and task.cancelling()
    if is_ending or not (isinstance(error, StoreError) and is_full(error)):
        raise error
    _LOGGER.warning("a run waits for space: %s", error)
    await asyncio.sleep(_FULL_SECONDS)


def describe_busy(path: str = "") -> StoreError:
    """Words that another run has the log."""
    return StoreError(
        path=path,
        detail="A run of this conversation is already active"
        + (f": it keeps {path} locked." if path else "."),
        remedy="Wait until it ends, or stop it; or fork the conversation and run the fork.",
    )
