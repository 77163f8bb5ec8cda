"""Threads for plain functions, reused for a short time.

Not a ``ThreadPoolExecutor``, which waits at exit for functions that never end. The gates limit how
many run concurrently.
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
"""Time that an idle thread waits for another job. Starting one takes several times as long as a
job."""

_lock = threading.Lock()
_idle: list[queue.SimpleQueue[Job]] = []


def submit(job: Job) -> None:
    """Run a job in a thread that nothing waits for, not even the end of the process.

    Args:
        job: It raises nothing.

    Raises:
        RuntimeError: The system has no more threads.
    """
    with _lock:
        # The last one that became idle, so that surplus threads stay idle and exit.
        inbox = _idle.pop() if _idle else None
    if inbox is not None:
        inbox.put(job)
        return
    inbox = queue.SimpleQueue()
    inbox.put(job)
    threading.Thread(target=_work, args=(inbox,), name="vibe-llms-invocable", daemon=True).start()


async def run_in_thread(function: Callable[[], T]) -> T:
    """Run a plain function in a thread without blocking the event loop.

    A cancelled caller stops waiting; the function continues until it ends by itself.

    Raises:
        RuntimeError: The system has no more threads.
        Exception: As raised by the function; an exception that would end a program becomes a
            RuntimeError.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def deliver(value: T | None, error: BaseException | None) -> None:
        # The caller was cancelled; the thread could not be.
        if ended.done():
            return
        if error is None:
            ended.set_result(value)  # type: ignore[arg-type]  # nothing was raised, so it is one
        else:
            ended.set_exception(error)

    def work() -> None:
        value: T | None = None
        failure: BaseException | None = None
        try:
            value = function()
        except Exception as error:
            # A future cannot hold a StopIteration, and it would be lost.
            is_held = not isinstance(error, StopIteration)
            failure = error if is_held else RuntimeError("it raised StopIteration")
        except BaseException as error:
            # An unchanged SystemExit would leave through the event loop, and end the program.
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
                # Another caller may have taken this thread for a job between its waiting and this
                # lock.
                if inbox in _idle:
                    _idle.remove(inbox)
                    return
            continue  # it has just received a job
        job()
        del job  # its references are not kept while waiting
        with _lock:
            _idle.append(inbox)


def _forget() -> None:
    """A forked child has the list but not the threads."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
