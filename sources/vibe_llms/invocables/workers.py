"""Threads for plain functions: used again while they are wanted, and gone soon after.

Not a ``ThreadPoolExecutor``: that waits at exit for functions which never end. How many run at
once is not decided here; see the gates.
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
"""How long a thread waits for another job. Starting one takes several times as long as a job."""

_lock = threading.Lock()
_idle: list[queue.SimpleQueue[Job]] = []


def submit(job: Job) -> None:
    """Runs a job in a thread that nobody waits for, not even the end of the process.

    Args:
        job: It raises nothing.

    Raises:
        RuntimeError: The system has no more threads.
    """
    with _lock:
        # The last one that became idle, so that those that are not needed stay idle and leave.
        inbox = _idle.pop() if _idle else None
    if inbox is not None:
        inbox.put(job)
        return
    inbox = queue.SimpleQueue()
    inbox.put(job)
    threading.Thread(target=_work, args=(inbox,), name="vibe-llms-invocable", daemon=True).start()


async def run_in_thread(function: Callable[[], T]) -> T:
    """Calls a plain function in a thread, and lets the event loop go on meanwhile.

    Whoever is cancelled stops waiting; the function goes on until it ends by itself.

    Raises:
        RuntimeError: The system has no more threads.
        Exception: What the function raised; of what would end a program a RuntimeError.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def deliver(value: T | None, error: BaseException | None) -> None:
        # Whoever waited was cancelled; the thread could not be.
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
            # A future cannot hold a StopIteration, and nobody would ever hear of it.
            is_held = not isinstance(error, StopIteration)
            failure = error if is_held else RuntimeError("it raised StopIteration")
        except BaseException as error:
            # SystemExit as it is would leave through the event loop, and end the program.
            failure = RuntimeError(f"it raised {type(error).__name__}")
        try:
            loop.call_soon_threadsafe(deliver, value, failure)
        except RuntimeError:
            return  # the loop has ended without waiting

    # As asyncio.to_thread does it: what holds in the caller's context holds in the thread.
    context = contextvars.copy_context()
    submit(lambda: context.run(work))
    return await ended


def _work(inbox: queue.SimpleQueue[Job]) -> None:
    while True:
        try:
            job = inbox.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            with _lock:
                # Somebody may have taken this thread for a job between its waiting and this lock.
                if inbox in _idle:
                    _idle.remove(inbox)
                    return
            continue  # it has just been given a job
        job()
        del job  # what it holds is not kept while waiting
        with _lock:
            _idle.append(inbox)


def _forget() -> None:
    """A forked child has the list but not the threads."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
