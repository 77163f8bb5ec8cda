"""The task that owns a connection: it opens, closes and reopens it.

Many libraries require that the opening task also closes. So each connection has one task which does
both and nothing else, and a policy decides how often it reconnects.
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
LONGEST_SECONDS: Final = 30.0
HEALTHY_SECONDS: Final = 60.0
"""A connection that lasted this long resets the count of failures."""

RETRY_SECONDS: Final = 30.0
"""Interval at which an abandoned connection may be tried again, on request."""

_SETTLING_SECONDS: Final = 1.0
"""Timeout for outstanding answers after a connection has failed."""

_FAREWELL_SECONDS: Final = 1.0
"""Timeout for the task when its caller is cancelled."""


@frozen
class Backoff:
    """Count of consecutive reconnections, with a maximum."""

    restarts: int
    used: int = 0

    def plan(self, lived_seconds: float) -> tuple[Backoff, float | None]:
        """Return the reaction to the end of a connection.

        Args:
            lived_seconds: How long it lasted; 0 if it could not be opened.

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
    """End of one connection: its state, its reason, and its outstanding answers.

    Attributes:
        reason: The peer's action, as the rest of a sentence.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._event = asyncio.Event()
        self._waiting = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def has_come(self) -> bool:
        """True if the connection has ended, or must end."""
        return self._event.is_set()

    def report(self, reason: str) -> None:
        """Report the end or the failure of the connection; the first report counts.

        Args:
            reason: The peer's action, as the rest of a sentence; empty if this side ends it.
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
        """Wait until no answers are outstanding, with a timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end; return whether it has come in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class Ends(Protocol):
    """An open resource with an end."""

    @property
    def ending(self) -> Disconnection:
        """Its end."""


_C = TypeVar("_C", bound=Ends)


class ConnectionOwner(Generic[_C]):
    """Opens a connection, keeps it open, and closes it, all in one task of its own.

    A failure of the first opening is an error. A connection that ends later is reopened with
    backoff; after too many consecutive failures it is abandoned, and tried again on request, at
    intervals.

    Args:
        name: Of the task.
        open_connection: Opens it; entered and left by the task.
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
        self._news = asyncio.Event()
        self._is_wanted = asyncio.Event()

    @property
    def is_connected(self) -> bool:
        """True if the connection is open and stays so."""
        return self._connection is not None and not self._connection.ending.has_come

    async def start(self) -> _C:
        """Start the task, wait until the connection is open, and return it.

        May be repeated after a stop.

        Raises:
            ConverseError: It cannot be opened.
        """
        if self._task is not None and not self._task.done():
            raise self._explain("it is already connected")
        self._reset()
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=self._name)
        try:
            return await self.acquire()
        except BaseException:
            # Also when cancelled: the task would connect without a user.
            await self.stop()
            raise

    async def stop(self) -> None:
        """Let the task close the connection, and wait for it.

        A cancellation of this method cancels the task, and waits a moment more.
        """
        task = self._task
        if task is None:
            return
        self._is_stopping = True
        if self._connection is not None:
            # Not cancelled: the task must close the connection in order.
            self._connection.ending.report("")
        else:
            task.cancel()  # it is connecting, or waits before it does
        try:
            # Not awaited directly: an error of the task is not for the caller.
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=_FAREWELL_SECONDS)
            raise

    async def acquire(self) -> _C:
        """Return the connection; wait for it while it is being opened.

        Raises:
            ConverseError: It was abandoned, or is closed.
        """
        while True:
            if self._connection is not None and not self._connection.ending.has_come:
                return self._connection
            if self._failure is not None:
                self._ask_again(self._failure)
            elif self._is_stopping or self._task is None or self._task.done():
                raise self._explain("it is not connected")
            await self._news.wait()

    def _ask_again(self, failure: ConverseError) -> None:
        """Try an abandoned connection again, if the interval has passed."""
        is_over = self._task is None or self._task.done()
        if is_over or asyncio.get_running_loop().time() < self._failed_at + RETRY_SECONDS:
            # A copy for each: an error that is raised repeatedly collects tracebacks.
            copy = type(failure)(**access_facts(failure))
            raise copy from failure.__cause__
        self._failure = None
        self._is_wanted.set()

    async def _keep(self) -> None:
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
                    await self._give_up(failure)
                else:
                    await asyncio.sleep(seconds)
        finally:
            self._wake()

    async def _serve(self) -> tuple[float, ConverseError]:
        """Keep one connection as long as it lasts; return how long that was, and why it ended."""
        loop = asyncio.get_running_loop()
        begun: float | None = None
        reason: Exception | str = ""
        try:
            async with self._open() as connection:
                begun = loop.time()
                self._connection = connection
                if self._was_connected:
                    self._restarted()
                self._was_connected = True
                self._wake()
                await connection.ending.wait()
                if connection.ending.reason:  # outstanding answers still count
                    await connection.ending.settle(_SETTLING_SECONDS)
        except Exception as error:
            reason = error
        finally:
            # From here on no caller gets the ended connection.
            had, self._connection = self._connection, None
        if had is not None and had.ending.reason:
            reason = f"it {had.ending.reason}"
        lived_seconds = 0.0 if begun is None else loop.time() - begun
        return lived_seconds, self._explain(reason)

    async def _give_up(self, failure: ConverseError) -> None:
        """Wake the waiting callers with the error, and wait for the next request."""
        self._failure = failure
        self._failed_at = asyncio.get_running_loop().time()
        self._is_wanted.clear()
        self._wake()
        await self._is_wanted.wait()

    def _wake(self) -> None:
        """Wake all callers that wait for the connection."""
        # A new event first: a woken caller that finds no connection waits for the next event.
        news, self._news = self._news, asyncio.Event()
        news.set()
