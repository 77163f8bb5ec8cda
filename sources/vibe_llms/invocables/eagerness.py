"""Eager tasks on every Python version; asyncio has them since Python 3.12.

A coroutine that never waits completes immediately, without an iteration of the event loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

_T = TypeVar("_T")


def start_eagerly(work: Coroutine[Any, Any, _T]) -> asyncio.Future[_T]:
    """Start a coroutine as a task; return the task, or the result if it has completed.

    The coroutine runs up to its first wait before this function returns, and already as that task:
    its timeouts and task groups belong to the task, and it has its own context variables.
    """
    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, eager_start=True)
    started = _StartedCoroutine(work)
    context = contextvars.copy_context()
    task: asyncio.Task[_T] = loop.create_task(started, context=context)
    caller = asyncio.current_task()
    assert caller is not None  # a caller of this function runs within a task
    # The documented way for a task implementation that is not asyncio's own
    # (https://docs.python.org/3.11/library/asyncio-extending.html, read 2026-11-23).
    asyncio.tasks._leave_task(loop, caller)
    asyncio.tasks._enter_task(loop, task)
    try:
        context.run(started.start)
    finally:
        asyncio.tasks._leave_task(loop, task)
        asyncio.tasks._enter_task(loop, caller)
    if started.error is not None or started.is_waiting:
        return task
    done: asyncio.Future[_T] = loop.create_future()
    done.set_result(started.result)
    return done


class _StartedCoroutine(Coroutine[Any, Any, Any]):
    """Coroutine that runs up to its first wait before a task continues it.

    Attributes:
        result: Result of the coroutine, once it has returned.
        error: Exception of the coroutine, once it has raised.
        is_waiting: True if it has neither returned nor raised.
    """

    __slots__ = ("_awaited", "_work", "error", "is_waiting", "result")

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self._awaited: Any = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_waiting = False

    def start(self) -> None:
        """Run the coroutine up to its first wait."""
        try:
            self._awaited = self._work.send(None)
        except StopIteration as end:
            self.result = end.value
        except BaseException as error:  # raised when the task is awaited
            self.error = error
        else:
            self.is_waiting = True

    def send(self, value: Any) -> Any:
        """Continue the coroutine; at the first step, yield what it already waits for."""
        if self.error is not None:
            raise self.error
        if not self.is_waiting:
            raise StopIteration(self.result)
        awaited, self._awaited = self._awaited, None
        return self._work.send(value) if awaited is None else awaited

    def throw(self, *details: Any) -> Any:
        """Throw an exception into the coroutine, such as a cancellation before the first step."""
        if self.error is not None or not self.is_waiting:
            return self.send(None)
        awaited, self._awaited = self._awaited, None
        if awaited is not None and awaited.cancel():  # as a task does with its awaitable
            return awaited
        return self._work.throw(*details)

    def close(self) -> None:
        """Close the coroutine."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise NotImplementedError  # the task calls send and throw
