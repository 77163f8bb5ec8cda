"""Threads for plain functions, reused for a short time.

A ``ThreadPoolExecutor`` would wait at exit for functions that never end. The gates of
:mod:`.call_execution` limit the number of threads.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import threading
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

Job: TypeAlias = Callable[[], object]

T = TypeVar("T")

IDLE_SECONDS: Final = 0.5
"""Time that an idle thread waits for another job, because starting a thread takes longer than most
jobs."""

_lock = threading.Lock()
_idle: list[queue.SimpleQueue[Job]] = []


def submit(job: Job) -> None:
    """Run a job in a thread that nothing waits for, not even the end of the process.

    Args:
        job: A function that raises no exceptions.

    Raises:
        RuntimeError: The system has no more threads.
    """
    with _lock:
        # Take the thread that became idle last, so that surplus threads stay idle and exit.
        inbox = _idle.pop() if _idle else None
    if inbox is not None:
        inbox.put(job)
        return
    inbox = queue.SimpleQueue()
    inbox.put(job)
    threading.Thread(target=_work, args=(inbox,), name="vibe-llms-invocable", daemon=True).start()


async def run_in_thread(function: Callable[[], T]) -> T:
    """Run a plain function in a thread without blocking the event loop.

    A cancelled caller stops waiting, but the function continues to its end.

    Raises:
        RuntimeError: The system has no more threads.
        Exception: The exception of the function; one that would end the program becomes a
            RuntimeError.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def deliver(value: T | None, error: BaseException | None) -> None:
        if ended.done():  # the caller was cancelled
            return
        if error is None:
            ended.set_result(value)  # type: ignore[arg-type]  # without an error there is a value
        else:
            ended.set_exception(error)

    def work() -> None:
        value: T | None = None
        failure: BaseException | None = None
        try:
            value = function()
        except Exception as error:
            # A future does not accept a StopIteration.
            is_stop = isinstance(error, StopIteration)
            failure = RuntimeError("it raised StopIteration") if is_stop else error
        except BaseException as error:
            # An unchanged SystemExit would end the event loop, and so the program.
            failure = RuntimeError(f"it raised {type(error).__name__}")
        try:
            loop.call_soon_threadsafe(deliver, value, failure)
        except RuntimeError:
            return  # the loop has ended without waiting

    # As asyncio.to_thread does: the caller's context variables apply in the thread.
    context = contextvars.copy_context()
    submit(lambda: context.run(work))
    return await ended


def _work(inbox: queue.SimpleQueue[Job]) -> None:
    while True:
        try:
            job = inbox.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            with _lock:
                # After the timeout but before this lock, a caller may have given this thread a job.
                if inbox in _idle:
                    _idle.remove(inbox)
                    return
            continue  # to receive that job
        job()
        del job  # release its references before waiting
        with _lock:
            _idle.append(inbox)


def _forget() -> None:
    """Clear the list in a forked child, which has none of the threads."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
