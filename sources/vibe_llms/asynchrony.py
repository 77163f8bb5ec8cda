"""The one portal through which synchronous code runs the asynchronous code of this package.

There is no second, synchronous implementation of anything. The portal is an event loop in a
thread of its own, started when it is first used and shared by the whole process, so that
connections and loaded models survive from one call to the next, whichever thread calls,
and also where the calling thread already runs a loop (a notebook).
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TypeVar

from vibe_llms.exceptions import ConverseError, Stage

_T = TypeVar("_T")

_SHUTDOWN_SECONDS = 5.0
"""How long the end of the process waits for what still runs behind the portal."""


class Portal:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="vibe-llms-portal", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """Runs an asynchronous function to its end behind the portal and returns its result.

        An interrupt (Ctrl-C) in the calling thread cancels the function and waits until it
        has cleaned up.

        Raises:
            ConverseError: The caller is itself code behind the portal, which would wait
                for itself for ever.
        """
        if threading.current_thread() is self._thread:
            raise ConverseError(
                detail="The synchronous face was called from inside the event loop it uses.",
                remedy="Await the asynchronous counterpart there.",
                stage=Stage.EXECUTE,
            )

        async def perform() -> _T:
            return await function()

        future: Future[_T] = asyncio.run_coroutine_threadsafe(perform(), self._loop)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                self._cancel(future)
            raise

    def _cancel(self, future: Future[_T]) -> None:
        """Cancels what runs and lets it clean up before the caller goes on."""
        finished = threading.Event()
        future.add_done_callback(lambda _: finished.set())
        future.cancel()
        # The future is done at once; a round through the loop lets the task unwind.
        barrier = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        barrier.result(_SHUTDOWN_SECONDS)
        finished.wait(_SHUTDOWN_SECONDS)

    def close(self) -> None:
        """Cancels what still runs, waits for it for a short while, and ends the thread."""
        if not self._thread.is_alive():
            return
        winding_up = asyncio.run_coroutine_threadsafe(_cancel_other_tasks(), self._loop)
        try:
            winding_up.result(_SHUTDOWN_SECONDS)
        except TimeoutError:
            winding_up.cancel()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SHUTDOWN_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()


async def _cancel_other_tasks() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


_lock = threading.Lock()
_portal: Portal | None = None


def access_portal() -> Portal:
    """Returns the portal of this process, which is made when it is first wanted."""
    global _portal
    with _lock:
        if _portal is None:
            _portal = Portal()
        return _portal


def close_portal() -> None:
    """Ends the portal of this process, if there is one; a later use makes a new one."""
    global _portal
    with _lock:
        portal, _portal = _portal, None
    if portal is not None:
        portal.close()


def _forget_portal() -> None:
    """A forked child has a copy of the loop but not its thread."""
    global _portal, _lock
    _portal = None
    _lock = threading.Lock()


atexit.register(close_portal)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_portal)
