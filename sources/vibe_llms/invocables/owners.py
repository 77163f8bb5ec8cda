"""Connection owner: the task that opens, reopens and closes a connection.

Many libraries require that the task which opens a connection also closes it. So each connection has
a separate task for both. A backoff policy decides how often it reconnects.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Final, Generic, Protocol, TypeVar

from vibe_llms.exceptions import ConverseError, access_facts
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.clocks import compute_backoff

_logger = logging.getLogger(__name__)

FIRST_SECONDS: Final = 0.2
"""Delay before the first reconnection; it doubles with each failure."""

LONGEST_SECONDS: Final = 30.0
"""Maximum delay before a reconnection."""

HEALTHY_SECONDS: Final = 60.0
"""A connection that lasted this long resets the count of failures."""

RETRY_SECONDS: Final = 30.0
"""Minimum time between attempts to reopen an abandoned connection, which a caller triggers."""

_OUTSTANDING_SECONDS: Final = 1.0
"""Timeout for outstanding answers after a connection has failed."""

_CANCELLED_SECONDS: Final = 1.0
"""Time that a cancelled caller still waits for the task to close the connection."""


@frozen
class Backoff:
    """Count of consecutive reconnections, with a maximum."""

    restarts: int
    used: int = 0

    def plan(self, lived_seconds: float) -> tuple[Backoff, float | None]:
        """Decide whether and when to reconnect after the end of a connection.

        Args:
            lived_seconds: How long the connection lasted; 0 if it could not be opened.

        Returns:
            The next state, and the delay before the reconnection; ``None`` to abandon the
            connection.
        """
        used = 0 if lived_seconds >= HEALTHY_SECONDS else self.used
        if used >= self.restarts:
            return self, None
        seconds = compute_backoff(FIRST_SECONDS, used, LONGEST_SECONDS)
        return Backoff(self.restarts, used + 1), seconds


class Disconnection:
    """End of one connection: whether and why the connection ended, and outstanding answers.

    Attributes:
        reason: Action of the peer, as the rest of a sentence; empty if this side ends it.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._event = asyncio.Event()
        self._waiting = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_set(self) -> bool:
        """True if the connection has ended, or must end."""
        return self._event.is_set()

    def report(self, reason: str) -> None:
        """Report the end or the failure of the connection; the first report counts.

        Args:
            reason: Action of the peer, as the rest of a sentence; empty if this side ends it.
        """
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Count an outstanding answer during the block."""
        self._waiting += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._idle.set()

    async def settle(self, seconds: float) -> None:
        """Wait until no answer is outstanding, or until a timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end; return false on a timeout."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class Endable(Protocol):
    """Open connection that reports its end."""

    @property
    def ending(self) -> Disconnection:
        """The end of the connection."""


_C = TypeVar("_C", bound=Endable)


class ConnectionOwner(Generic[_C]):
    """Opens a connection, keeps it open, and closes it, all in one separate task.

    If the first attempt to open it fails, that is an error. If the connection ends later, it is
    reopened with backoff. After too many consecutive failures it is abandoned; then callers trigger
    further attempts, at intervals.

    Args:
        name: The name of the task.
        open_connection: Opens the connection; the task enters and leaves the context.
        explain: Creates an error from an exception, or from a reason in words.
        restarts: Maximum number of consecutive reconnections.
        restarted: Called after a reconnection.
    """

    def __init__(
        self,
        name: str,
        open_connection: Callable[[], AbstractAsyncContextManager[_C]],
        explain: Callable[[Exception | str], ConverseError],
        *,
        restarts: int = 0,
        restarted: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._open = open_connection
        self._explain = explain
        self._restarts = restarts
        self._restarted = restarted
        self._task: asyncio.Task[None] | None = None
        self._reset()

    def _reset(self) -> None:
        self._connection: _C | None = None
        self._failure: ConverseError | None = None
        self._failed_at = 0.0
        self._was_connected = False
        self._is_stopping = False
        self._changed = asyncio.Event()
        self._is_wanted = asyncio.Event()

    @property
    def is_connected(self) -> bool:
        """True if the connection is open and not about to end."""
        return self._connection is not None and not self._connection.ending.is_set

    async def start(self) -> _C:
        """Start the task, wait until the connection is open, and return it.

        May be repeated after a stop.

        Raises:
            ConverseError: The connection cannot be opened.
        """
        if self._task is not None and not self._task.done():
            raise self._explain("it is already connected")
        self._reset()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)
        try:
            return await self.acquire()
        except BaseException:
            # Also after a cancellation, or the task would connect for no caller.
            await self.stop()
            raise

    async def stop(self) -> None:
        """Let the task close the connection, and wait for the end of the task.

        If this method is cancelled, it cancels the task and still waits a moment for the end of the
        task.
        """
        task = self._task
        if task is None:
            return
        self._is_stopping = True
        if self._connection is not None:
            # Not by a cancellation, so that the task can close the connection properly.
            self._connection.ending.report("")
        else:
            task.cancel()  # it is connecting, or waiting for the next attempt
        try:
            # Not awaited directly, because errors of the task do not concern the caller.
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCELLED_SECONDS)
            raise

    async def acquire(self) -> _C:
        """Return the connection; wait while it is being opened.

        Raises:
            ConverseError: The connection was abandoned, or is closed.
        """
        while True:
            if self._connection is not None and not self._connection.ending.is_set:
                return self._connection
            if self._failure is not None:
                self._reopen_abandoned(self._failure)
            elif self._is_stopping or self._task is None or self._task.done():
                raise self._explain("it is not connected")
            await self._changed.wait()

    def _reopen_abandoned(self, failure: ConverseError) -> None:
        """Let the task reopen an abandoned connection if the interval has passed; else raise."""
        is_over = self._task is None or self._task.done()
        if is_over or asyncio.get_running_loop().time() < self._failed_at + RETRY_SECONDS:
            # A copy for each, because an error that is raised repeatedly collects tracebacks.
            copy = type(failure)(**access_facts(failure))
            raise copy from failure.__cause__
        self._failure = None
        self._is_wanted.set()

    async def _run(self) -> None:
        backoff = Backoff(self._restarts)
        try:
            while True:
                lived_seconds, failure = await self._serve()
                if self._is_stopping:
                    return
                if not self._was_connected:
                    self._failure = failure
                    return
                _logger.warning("%s", failure)
                backoff, seconds = backoff.plan(lived_seconds)
                if seconds is None:
                    await self._abandon(failure)
                else:
                    await asyncio.sleep(seconds)
        finally:
            self._wake()

    async def _serve(self) -> tuple[float, ConverseError]:
        """Keep one connection open until it ends; return its duration, and why it ended."""
        loop = asyncio.get_running_loop()
        opened_at: float | None = None
        reason: Exception | str = ""
        try:
            async with self._open() as connection:
                opened_at = loop.time()
                self._connection = connection
                if self._was_connected:
                    self._restarted()
                self._was_connected = True
                self._wake()
                await connection.ending.wait()
                if connection.ending.reason:  # outstanding answers still count
                    await connection.ending.settle(_OUTSTANDING_SECONDS)
        except Exception as error:
            reason = error
        finally:
            # From now on, callers do not get the ended connection.
            ended, self._connection = self._connection, None
        if ended is not None and ended.ending.reason:
            reason = f"it {ended.ending.reason}"
        lived_seconds = 0.0 if opened_at is None else loop.time() - opened_at
        return lived_seconds, self._explain(reason)

    async def _abandon(self, failure: ConverseError) -> None:
        """Report the error to the waiting callers, and wait until a caller wants the connection."""
        self._failure = failure
        self._failed_at = asyncio.get_running_loop().time()
        self._is_wanted.clear()
        self._wake()
        await self._is_wanted.wait()

    def _wake(self) -> None:
        """Wake all callers that wait for the connection."""
        # Replace the event first: a woken caller that finds no connection waits for the new one.
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
