"""Ctrl-C while something is under way: it stops that, and not the program."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

_T = TypeVar("_T")

_interruption = threading.Event()


def was_interrupted() -> bool:
    """Tells threads which wait for a person whether the work they wait for was interrupted."""
    return _interruption.is_set()


async def run_interruptibly(work: Coroutine[Any, Any, _T]) -> _T:
    """Awaits work that Ctrl-C cancels; a second Ctrl-C, while it cleans up, is not held back.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; the work has cleaned up.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    presses = 0
    _interruption.clear()

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        _interruption.set()
        if presses > 1 or task.done():
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(task.cancel)

    previous = signal.signal(signal.SIGINT, stop)
    try:
        return await task
    except asyncio.CancelledError:
        if presses:
            raise KeyboardInterrupt from None
        task.cancel()
        raise
    finally:
        signal.signal(signal.SIGINT, previous)
