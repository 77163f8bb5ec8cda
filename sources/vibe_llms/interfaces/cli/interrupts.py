"""Handling of Ctrl-C: it cancels the current work, not the program."""

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
    """Signal to the threads of a piece of work that it has ended; threads cannot be cancelled.

    Attributes:
        terminal: Lock that is held by the thread that reads the terminal for this work.
    """

    terminal: threading.Lock = attrs.field(factory=threading.Lock)
    _event: threading.Event = attrs.field(factory=threading.Event)

    def set(self) -> None:
        """Signal the end: threads that wait for input stop within a short time."""
        self._event.set()

    def is_set(self) -> bool:
        """Return whether the work was interrupted or has ended."""
        return self._event.is_set()


# The default is used outside of any work and never set.
_interruption = contextvars.ContextVar("interruption", default=Interruption())  # noqa: B039
"""The interruption of the current work and its threads."""


def access_interruption() -> Interruption:
    """Return the interruption of the current work."""
    return _interruption.get()


@contextmanager
def begin_work() -> Iterator[Interruption]:
    """Set a new interruption for a block; at its end, wait until no thread reads the terminal."""
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
            # Thread-safe, because a plain `cancel` does not wake a loop that waits for input.
            loop.call_soon_threadsafe(task.cancel)

        # Not a handler of the loop, which runs only when the loop does: a second Ctrl-C must work
        # at once.
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
        if presses:  # pressed too late to cancel the work
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
    """Let Ctrl-C raise KeyboardInterrupt at once in a block that blocks the event loop."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        # Pressed shortly before the block.
        if access_interruption().is_set():
            raise KeyboardInterrupt
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
