"""The portal through which synchronous code runs the asynchronous code of this package.

There is no second, synchronous implementation of anything. A portal is an event loop in a
thread of its own, started when it is first used and shared by the whole process, so that
connections and loaded models survive from one call to the next, whichever thread calls,
and also where the calling thread already runs a loop (a notebook).
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401  # registers its own end before ours; see below
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
"""How long the end of the process waits for what still runs behind the portal."""


async def finish(work: Awaitable[_T]) -> _T:
    """Waits for work to its end, also where whoever waits is cancelled, once or again.

    The cancellation is raised when the work has ended; it is to have limits of its own.

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
        task.exception()  # looked at: that nobody waits any more is what there is to know
    raise cancellation


def in_thread(method: Callable[_P, _T]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Makes an asynchronous method of one that does file work: it is performed in a thread."""

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
        self._waited: set[Future[Any]] = set()
        # A daemon, which does not keep the process: `_end` closes the portal in time.
        self._thread = threading.Thread(target=self._run, name="vibe-llms-portal", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """Runs an asynchronous function to its end behind the portal and returns its result.

        An interrupt (Ctrl-C) in the calling thread cancels the function and waits until it
        has cleaned up, though not for ever.

        Raises:
            ConverseError: The caller is itself code behind the portal, which would wait
                for itself for ever; or the portal was closed before or meanwhile.
        """
        if threading.current_thread() is self._thread:
            raise ConverseError(
                detail="The synchronous face was called from inside the event loop it uses.",
                remedy="Await the asynchronous counterpart there.",
                stage=Stage.EXECUTE,
            )
        future: Future[_T] = Future()
        finished = threading.Event()
        is_begun = False
        try:  # an interrupt may come as soon as the work has begun
            with self._state_lock:  # so that nothing is begun behind the back of `close`
                if self._is_closed or not self._thread.is_alive():
                    raise _portal_closed()
                is_begun = True
                if not threading.current_thread().daemon:
                    self._waited.add(future)
                self._loop.call_soon_threadsafe(self._begin, function, future, finished)
            return future.result()
        except BaseException:
            if is_begun and future.cancel():  # it was the wait that ended, not the work
                finished.wait(_SHUTDOWN_SECONDS)
            raise
        finally:
            self._waited.discard(future)

    def _begin(
        self,
        function: Callable[[], Awaitable[_T]],
        future: Future[_T],
        finished: threading.Event,
    ) -> None:
        """Starts the work in the loop and ties it to the future that its caller waits for."""

        ending: list[BaseException] = []

        # A task takes a coroutine alone, and a function may return anything that can be awaited.
        async def perform() -> _T:
            try:
                return await function()
            except (KeyboardInterrupt, SystemExit) as error:
                # A task that raised it would end the loop, and all callers would hang.
                ending.append(error)
                raise asyncio.CancelledError from error

        def cancel(future: Future[_T]) -> None:
            if future.cancelled():
                self._loop.call_soon_threadsafe(task.cancel)

        def conclude(task: asyncio.Task[_T]) -> None:
            finished.set()
            error: BaseException | None
            if ending:
                error = ending[0]
            elif task.cancelled():
                error = _portal_closed() if self._is_closed else asyncio.CancelledError()
            else:
                error = task.exception()
            if not future.set_running_or_notify_cancel():
                return  # nobody waits any more; cleaning up was all that was left to do
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(task.result())

        task = self._loop.create_task(perform())
        task.add_done_callback(conclude)
        future.add_done_callback(cancel)

    def release(self, function: Callable[[], Awaitable[object]]) -> None:
        """Runs what lets go of something, as :meth:`call` does, unless the portal was closed.

        That has let go of everything; whoever comes later is a generator which nobody had closed
        before the process ended.
        """
        if not self._is_closed:
            self.call(function)

    def wait_for_others(self) -> None:
        """Waits for the calls of those threads for which the end of the process waits as well."""
        while waited := tuple(self._waited):
            wait(waited)

    def close(self) -> None:
        """Cancels what still runs, waits for it for a short while, and ends the thread."""
        with self._state_lock:
            if self._is_closed or not self._thread.is_alive():
                return
            # First of all: what would be begun from here on, nobody would wind up.
            self._is_closed = True
        winding_up = asyncio.run_coroutine_threadsafe(self._wind_up(), self._loop)
        try:
            winding_up.result(_SHUTDOWN_SECONDS)
        except TimeoutError:
            winding_up.cancel()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SHUTDOWN_SECONDS)
        # A loop that still runs cannot be closed.
        if not self._thread.is_alive():
            self._loop.close()

    async def _wind_up(self) -> None:
        await _cancel_other_tasks()
        await self._loop.shutdown_asyncgens()


def _portal_closed() -> ConverseError:
    return ConverseError(
        detail="The portal of the synchronous face was closed.",
        remedy="Access a new one with access_portal().",
        stage=Stage.EXECUTE,
    )


async def _cancel_other_tasks() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


_lock = threading.Lock()
_portals: dict[str, Portal] = {}


def access_portal(name: str = "") -> Portal:
    """Returns a portal of this process, which is made when it is first wanted.

    Args:
        name: Of one beside that of the synchronous face: what is called from behind that one, too,
            and is waited for there, runs elsewhere.
    """
    with _lock:
        if name not in _portals:
            _portals[name] = Portal()
        return _portals[name]


def close_portal() -> None:
    """Ends the portals of this process; a later use makes new ones."""
    with _lock:
        portals = list(_portals.values())
        _portals.clear()
    for portal in portals:
        portal.close()


_inherited: list[Portal] = []
"""Portals of a parent process: kept, because finalizing their loops would complain."""


def _forget_portals() -> None:
    """A forked child has a copy of the loops but not their threads."""
    global _portals, _lock
    _inherited.extend(_portals.values())
    _portals = {}
    # The old one may be held, by a thread that the child does not have.
    _lock = threading.Lock()


def _end() -> None:
    """Closes the portals while what lives behind them can still be freed."""
    for portal in list(_portals.values()):
        portal.wait_for_others()
    close_portal()


# What closes may want a thread, and by the time of `atexit` Python makes none any more. Pools of
# threads are ended by another list, from its end: since the module of theirs is imported above,
# ours comes before them.
getattr(threading, "_register_atexit", atexit.register)(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_portals)


LENGTHY: Final[ContextVar[bool]] = ContextVar("vibe_llms.lengthy", default=False)
"""Whether the current request is so large that its work runs beside the event loop."""

_turns: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()


_LOOK_SECONDS: Final = 0.02


class _Abandoned(BaseException):
    """Ends abandoned work."""


async def perform_apart(work: Callable[[], _T]) -> _T:
    """Perform work of the processor beside the event loop, which answers others meanwhile.

    One piece of work is performed at a time, so that the loop has at least half of the time. Where
    the caller is cancelled, the work ends at its next step in Python.

    Args:
        work: Changes nothing that others see; it may be broken off anywhere.

    Returns:
        The result of the work; its errors are raised.
    """
    loop = asyncio.get_running_loop()
    turn = _turns.setdefault(loop, asyncio.Lock())
    await turn.acquire()
    ended = loop.create_future()
    outcome: Future[_T] = Future()
    context = copy_context()

    def perform() -> None:
        # It may arrive as late as here, also within the future.
        with contextlib.suppress(_Abandoned, InvalidStateError):
            try:
                outcome.set_result(context.run(work))
            except BaseException as error:
                outcome.set_exception(error)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_tell_end, ended)

    thread = threading.Thread(target=perform, name="vibe-llms-work")
    thread.start()
    try:
        await ended
    except asyncio.CancelledError:
        _abandon(thread)
        _release(loop, thread, turn)
        raise
    turn.release()
    return outcome.result()


def _tell_end(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def _release(loop: asyncio.AbstractEventLoop, thread: threading.Thread, turn: asyncio.Lock) -> None:
    """Release the turn when an abandoned thread has ended."""
    if thread.is_alive():
        loop.call_later(_LOOK_SECONDS, _release, loop, thread, turn)
    else:
        turn.release()


def _abandon(thread: threading.Thread) -> None:
    import ctypes  # few requests are both large and left

    number = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(_Abandoned))
