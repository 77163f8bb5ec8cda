"""Portal through which synchronous code runs the asynchronous code of this package.

Nothing is implemented a second time for synchronous code. A portal is an event loop in a thread of
its own, started at its first use and shared by the whole process. So connections and loaded models
stay open between calls from any thread. It also works if the calling thread already runs an event
loop, as in a notebook.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401  # registers its shutdown before ours; see the end
import contextlib
import functools
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, InvalidStateError, wait
from contextvars import ContextVar, copy_context
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from vibe_llms.exceptions import ConverseError, Stage

_P = ParamSpec("_P")
_T = TypeVar("_T")

_SHUTDOWN_SECONDS = 5.0
"""Maximum wait at the end of the process for work in a portal."""


async def finish(work: Awaitable[_T]) -> _T:
    """Wait for work to its end, even if the caller is cancelled, once or repeatedly.

    The cancellation is raised when the work has ended; the work should have limits of its own.

    Returns:
        The result of the work; its errors are raised.
    """
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})  # unlike awaiting it, this cannot cancel it
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # retrieve the error, as the caller is gone
    raise cancellation


def in_thread(method: Callable[_P, _T]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Make an asynchronous method of one that works with files: it runs in a thread."""

    @functools.wraps(method)
    async def call(*args: _P.args, **settings: _P.kwargs) -> _T:
        return await asyncio.to_thread(method, *args, **settings)

    return call


class Portal:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._state_lock = threading.Lock()
        self._is_closed = False
        self._awaited_calls: set[Future[Any]] = set()
        # A daemon thread does not keep the process alive: `_end` closes the portal in time.
        self._thread = threading.Thread(target=self._run, name="vibe-llms-portal", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """Run an asynchronous function in the portal to its end and return its result.

        An interrupt (Ctrl-C) in the calling thread cancels the function and waits for its clean-up,
        but not forever.

        Raises:
            ConverseError: The caller runs inside the portal, and would wait for itself forever; or
                the portal was closed before or during the call.
        """
        if threading.current_thread() is self._thread:
            raise ConverseError(
                detail="The synchronous API was called from inside its own event loop.",
                remedy="Await the asynchronous counterpart there.",
                stage=Stage.EXECUTE,
            )
        future: Future[_T] = Future()
        finished = threading.Event()
        is_begun = False
        try:  # an interrupt may occur as soon as the work has begun
            with self._state_lock:  # so that `close` cancels all work that has begun
                if self._is_closed or not self._thread.is_alive():
                    raise _portal_closed()
                is_begun = True
                if not threading.current_thread().daemon:
                    self._awaited_calls.add(future)
                self._loop.call_soon_threadsafe(self._begin, function, future, finished)
            return future.result()
        except BaseException:
            if is_begun and future.cancel():  # an interrupt ended the wait, not the work
                finished.wait(_SHUTDOWN_SECONDS)
            raise
        finally:
            self._awaited_calls.discard(future)

    def _begin(
        self,
        function: Callable[[], Awaitable[_T]],
        future: Future[_T],
        finished: threading.Event,
    ) -> None:
        """Start the work in the loop and connect it to the future that its caller waits for."""

        interrupts: list[BaseException] = []

        # A task requires a coroutine, and a function may return any awaitable.
        async def perform() -> _T:
            try:
                return await function()
            except (KeyboardInterrupt, SystemExit) as error:
                # Raised by a task, it would end the loop, and all callers would hang.
                interrupts.append(error)
                raise asyncio.CancelledError from error

        def cancel(future: Future[_T]) -> None:
            if future.cancelled():
                self._loop.call_soon_threadsafe(task.cancel)

        def conclude(task: asyncio.Task[_T]) -> None:
            finished.set()
            error: BaseException | None
            if interrupts:
                error = interrupts[0]
            elif task.cancelled():
                error = _portal_closed() if self._is_closed else asyncio.CancelledError()
            else:
                error = task.exception()
            if not future.set_running_or_notify_cancel():
                return  # the caller is gone; only the clean-up was left
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(task.result())

        task = self._loop.create_task(perform())
        task.add_done_callback(conclude)
        future.add_done_callback(cancel)

    def release(self, function: Callable[[], Awaitable[object]]) -> None:
        """Run a function that releases resources; do nothing if the portal was closed.

        Closing has released everything. This is then called by a generator that was not closed
        before the process ended.
        """
        if not self._is_closed:
            self.call(function)

    def wait_for_calls(self) -> None:
        """Wait for the calls of all threads but daemon threads, as the end of the process does."""
        while calls := tuple(self._awaited_calls):
            wait(calls)

    def close(self) -> None:
        """Cancel running work, wait for it for a short time, and end the thread."""
        with self._state_lock:
            if self._is_closed or not self._thread.is_alive():
                return
            # Set before cancelling: work that started afterwards would not be cancelled.
            self._is_closed = True
        shutdown = asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop)
        try:
            shutdown.result(_SHUTDOWN_SECONDS)
        except TimeoutError:
            shutdown.cancel()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SHUTDOWN_SECONDS)
        # A loop that is still running cannot be closed.
        if not self._thread.is_alive():
            self._loop.close()

    async def _shut_down(self) -> None:
        await _cancel_other_tasks()
        await self._loop.shutdown_asyncgens()


def _portal_closed() -> ConverseError:
    return ConverseError(
        detail="The portal of the synchronous API was closed.",
        remedy="Get a new one with access_portal().",
        stage=Stage.EXECUTE,
    )


async def _cancel_other_tasks() -> None:
    other_tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in other_tasks:
        task.cancel()
    await asyncio.gather(*other_tasks, return_exceptions=True)


_lock = threading.Lock()
_portals: dict[str, Portal] = {}


def access_portal(name: str = "") -> Portal:
    """Return a portal of this process, created at its first use.

    Args:
        name: Empty for the portal of synchronous code. Work for which code inside that portal waits
            must run in another one, with a name.
    """
    with _lock:
        if name not in _portals:
            _portals[name] = Portal()
        return _portals[name]


def close_portal() -> None:
    """End the portals of this process; a later use makes new ones."""
    with _lock:
        portals = list(_portals.values())
        _portals.clear()
    for portal in portals:
        portal.close()


_inherited: list[Portal] = []
"""Portals of the parent process: referenced, because finalizing their loops would log errors."""


def _forget_portals() -> None:
    """Forget the portals in a forked child, which has copies of the loops but not their threads."""
    global _portals, _lock
    _inherited.extend(_portals.values())
    _portals = {}
    # The old one may be locked by a thread that the child does not have.
    _lock = threading.Lock()


def _end() -> None:
    """Close the portals while their resources can still be released."""
    for portal in list(_portals.values()):
        portal.wait_for_calls()
    close_portal()


# Closing may require a thread, and in `atexit` Python can no longer start one. So this uses the
# list by which `threading` shuts down thread pools, last entry first. The module of thread pools is
# imported above, so that its entry precedes ours and portals are closed before the pools.
getattr(threading, "_register_atexit", atexit.register)(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_portals)


IS_LARGE_REQUEST: Final[ContextVar[bool]] = ContextVar("vibe_llms.lengthy", default=False)
"""True if the current request is so large that CPU-bound work runs outside of the event loop."""

_work_locks: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()
"""Locks of :func:`run_outside_loop`, one for each event loop."""


_POLL_SECONDS: Final = 0.02


class _Abandoned(BaseException):
    """Raised in the thread of work whose caller was cancelled, to end it."""


async def run_outside_loop(work: Callable[[], _T]) -> _T:
    """Run CPU-bound work outside of the event loop, which stays responsive.

    Only one piece of work runs at a time, so that the loop has at least half of the time. If the
    caller is cancelled, the work ends at its next step in Python.

    Args:
        work: Must not have visible effects; may be interrupted anywhere.

    Returns:
        The result of the work; its errors are raised.
    """
    loop = asyncio.get_running_loop()
    lock = _work_locks.setdefault(loop, asyncio.Lock())
    await lock.acquire()
    ended = loop.create_future()
    outcome: Future[_T] = Future()
    context = copy_context()

    def perform() -> None:
        # `_Abandoned` may be raised as late as here, also inside a method of the future.
        with contextlib.suppress(_Abandoned, InvalidStateError):
            try:
                outcome.set_result(context.run(work))
            except BaseException as error:
                outcome.set_exception(error)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_set_ended, ended)

    thread = threading.Thread(target=perform, name="vibe-llms-work")
    thread.start()
    try:
        await ended
    except asyncio.CancelledError:
        _abandon(thread)
        _release(loop, thread, lock)
        raise
    lock.release()
    return outcome.result()


def _set_ended(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def _release(loop: asyncio.AbstractEventLoop, thread: threading.Thread, lock: asyncio.Lock) -> None:
    """Release the lock when an abandoned thread has ended."""
    if thread.is_alive():
        loop.call_later(_POLL_SECONDS, _release, loop, thread, lock)
    else:
        lock.release()


def _abandon(thread: threading.Thread) -> None:
    """Raise an exception in a thread, at its next step in Python."""
    import ctypes  # rarely needed

    number = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(_Abandoned))
