"""The task that owns a connection, from its opening to its closing, and opens it again.

What many libraries open has to be closed by the task that opened it. So each connection has one
task which does both and nothing else, and how often it opens it again is a policy.
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
from vibe_llms.foundation.clocks import double

_logger = logging.getLogger(__name__)

FIRST_SECONDS: Final = 0.2
LONGEST_SECONDS: Final = 30.0
HEALTHY_SECONDS: Final = 60.0
"""A connection that lasted as long as this is forgiven its earlier ends."""

RETRY_SECONDS: Final = 30.0
"""How often one that was given up is tried once more, if somebody wants it."""

_SETTLING_SECONDS: Final = 1.0
"""How long answers are waited for after a connection has become of no use."""

_FAREWELL_SECONDS: Final = 1.0
"""How long the task is waited for by somebody who is being cancelled."""


@frozen
class Backoff:
    """How often in a row a connection was opened again, of so many times that it may be."""

    restarts: int
    used: int = 0

    def plan(self, lived_seconds: float) -> tuple[Backoff, float | None]:
        """Returns what follows the end of a connection.

        Args:
            lived_seconds: How long it lasted; 0 where it could not be opened.

        Returns:
            What to plan with next time, and how long to wait before it is opened again; ``None``
            where it is given up.
        """
        used = 0 if lived_seconds >= HEALTHY_SECONDS else self.used
        if used >= self.restarts:
            return self, None
        seconds = double(FIRST_SECONDS, used, LONGEST_SECONDS)
        return Backoff(self.restarts, used + 1), seconds


class Disconnection:
    """The end of one connection: whether it has come, why, and who still waits for an answer.

    Attributes:
        reason: What the other side did, as the rest of a sentence.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._event = asyncio.Event()
        self._waiting = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def has_come(self) -> bool:
        """Whether the connection has ended, or is to."""
        return self._event.is_set()

    def report(self, reason: str) -> None:
        """Says that the connection has ended, or that it is of no more use; the first counts.

        Args:
            reason: What the other side did, as the rest of a sentence; nothing where it is we
                who end it.
        """
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Says that an answer is waited for."""
        self._waiting += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._idle.set()

    async def settle(self, seconds: float) -> None:
        """Waits, though not longer, until nobody waits for an answer any more."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits for the end; tells whether it has come in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class Ends(Protocol):
    """Something that is open until its end comes."""

    @property
    def ending(self) -> Disconnection:
        """Its end."""


_C = TypeVar("_C", bound=Ends)


class ConnectionOwner(Generic[_C]):
    """Opens a connection, keeps it open, and closes it, all in one task of its own.

    One that cannot be opened at first is an error. One that ends later is opened again, after
    waits that grow; when that was in vain too often in a row, it is given up, and tried once
    more only when somebody wants it, now and then.

    Args:
        name: Of the task.
        open_connection: Opens it; entered and left by the task.
        explain: Makes an error of what has gone wrong, or of a reason in words.
        restarts: How often in a row it is opened again.
        restarted: Is called when it has been.
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
        """Whether the connection is open and is to stay so."""
        return self._connection is not None and not self._connection.ending.has_come

    async def start(self) -> None:
        """Begins the task and waits until the connection is open; may be done again after a stop.

        Raises:
            ConverseError: It cannot be opened.
        """
        if self._task is not None and not self._task.done():
            raise self._explain("it is already connected")
        self._reset()
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=self._name)
        try:
            await self.acquire()
        except BaseException:
            # Also when cancelled: the task would go on to connect, for nobody.
            await self.stop()
            raise

    async def stop(self) -> None:
        """Lets the task close the connection, and waits for it.

        Whoever is cancelled meanwhile has the task cancelled, and waits a moment more.
        """
        task = self._task
        if task is None:
            return
        self._is_stopping = True
        if self._connection is not None:
            # Not cancelled: the task has to say goodbye to the other side.
            self._connection.ending.report("")
        else:
            task.cancel()  # it is connecting, or waits before it does
        try:
            # Not awaited itself: how it ends, with an error perhaps, is not for whoever stops it.
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=_FAREWELL_SECONDS)
            raise

    async def acquire(self) -> _C:
        """Returns the connection; waits for it while it is being opened.

        Raises:
            ConverseError: It was given up, or is closed.
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
        """Has one tried once more that was given up, if that was long enough ago."""
        is_over = self._task is None or self._task.done()
        if is_over or asyncio.get_running_loop().time() < self._failed_at + RETRY_SECONDS:
            # A copy for each: one error that is raised again and again gathers tracebacks.
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
        """Keeps one connection as long as it lasts; returns how long that was, and why it ended."""
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
                if connection.ending.reason:  # answers that are on their way still count
                    await connection.ending.settle(_SETTLING_SECONDS)
        except Exception as error:
            reason = error
        finally:
            # From here on nobody is given what has ended, whatever follows.
            had, self._connection = self._connection, None
        if had is not None and had.ending.reason:
            reason = f"it {had.ending.reason}"
        lived_seconds = 0.0 if begun is None else loop.time() - begun
        return lived_seconds, self._explain(reason)

    async def _give_up(self, failure: ConverseError) -> None:
        """Tells all who wait for it, and waits until somebody wants it again."""
        self._failure = failure
        self._failed_at = asyncio.get_running_loop().time()
        self._is_wanted.clear()
        self._wake()
        await self._is_wanted.wait()

    def _wake(self) -> None:
        """Has all who wait for the connection look again."""
        # A new one first: whoever wakes and finds nothing waits for the next news, not for these.
        news, self._news = self._news, asyncio.Event()
        news.set()
