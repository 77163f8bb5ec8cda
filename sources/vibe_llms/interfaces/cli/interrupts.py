"""Ctrl-C cancels the current work, not the program."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import attrs

from vibe_llms.foundation.attrs_classes import frozen

_T = TypeVar("_T")


@frozen
class Interruption:
    """Signal to the threads of some work, which cannot be cancelled, that it has ended.

    Attributes:
        terminal: Lock of the thread that reads the terminal for this work.
    """

    terminal: threading.Lock = attrs.field(factory=threading.Lock)
    _event: threading.Event = attrs.field(factory=threading.Event)

    def set(self) -> None:
        """Signal the end: threads that wait for input stop within a short time."""
        self._event.set()

    def is_set(self) -> bool:
        """Return whether the work was interrupted or has ended."""
        return self._event.is_set()


# Default outside of any work, where nothing can be interrupted: never set.
_interruption = contextvars.ContextVar("interruption", default=Interruption())  # noqa: B039
"""The interruption of the current work, also in its threads."""


def access_interruption() -> Interruption:
    """Return the interruption of the current work."""
    return _interruption.get()


@contextmanager
def begin_work() -> Iterator[Interruption]:
    """Give work its own interruption; at the end, no thread of it reads the terminal."""
    interruption = Interruption()
    token = _interruption.set(interruption)
    try:
        yield interruption
    finally:
        interruption.set()
        with interruption.terminal:  # the reading thread polls ten times a second
            _interruption.reset(token)


async def run_interruptibly(work: Coroutine[Any, Any, _T]) -> _T:
    """Await work that Ctrl-C cancels; a second Ctrl-C during its cleanup raises at once.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; the work has cleaned up.
    """
    with begin_work() as interruption:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        presses = 0

        def stop(number: int, frame: FrameType | None) -> None:
            nonlocal presses
            presses += 1
            interruption.set()
            if presses > 1 or task.done():
                raise KeyboardInterrupt
            # Cancelling alone would not wake a loop that waits for input.
            loop.call_soon_threadsafe(task.cancel)

        # A handler of the loop itself would wait for the loop; a second Ctrl-C must not wait.
        previous = signal.signal(signal.SIGINT, stop)
        try:
            result = await task
        except asyncio.CancelledError:
            if presses:
                raise KeyboardInterrupt from None
            task.cancel()
            raise
        finally:
            signal.signal(signal.SIGINT, previous)
        if presses:  # pressed too late to cancel: no keypress is lost
            raise KeyboardInterrupt
        return result


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Execute a command's work in a new event loop; Ctrl-C cancels it.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; the work has cleaned up.
    """
    return asyncio.run(run_interruptibly(work))


@contextmanager
def block() -> Iterator[None]:
    """Let Ctrl-C raise at once in code that blocks the loop on purpose, or just before it."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        # Pressed while the loop was busy: nothing else would raise it.
        if access_interruption().is_set():
            raise KeyboardInterrupt
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
