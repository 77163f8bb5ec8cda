"""Eager start of a coroutine as a task, on every Python version.

A coroutine that never waits completes immediately, and costs no turn of the event loop. From Python
3.12 on asyncio has eager tasks.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

_T = TypeVar("_T")


def begin(work: Coroutine[Any, Any, _T]) -> asyncio.Future[_T]:
    """Start a coroutine as a task; return the task, or the result if it has completed.

    The coroutine runs up to its first wait before this returns, as that task: timeouts and groups
    that it opens belong to the task, and its context variables are private to it.
    """
    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, eager_start=True)
    begun = _Begun(work)
    context = contextvars.copy_context()
    task: asyncio.Task[_T] = loop.create_task(begun, context=context)
    beginner = asyncio.current_task()
    assert beginner is not None  # a caller of this function runs within a task
    # The documented way for steppers of a task that is not asyncio's own
    # (https://docs.python.org/3.11/library/asyncio-extending.html, read 2026-11-23).
    asyncio.tasks._leave_task(loop, beginner)
    asyncio.tasks._enter_task(loop, task)
    try:
        context.run(begun.begin)
    finally:
        asyncio.tasks._leave_task(loop, task)
        asyncio.tasks._enter_task(loop, beginner)
    if begun.error is not None or begun.is_waiting:
        return task
    done: asyncio.Future[_T] = loop.create_future()
    done.set_result(begun.result)
    return done


class _Begun(Coroutine[Any, Any, Any]):
    """A coroutine that has run up to its first wait; its task continues it.

    Attributes:
        result: Its result, once it has returned.
        error: Its exception, once it has raised.
        is_waiting: It has neither returned nor raised.
    """

    __slots__ = ("_awaited", "_work", "error", "is_waiting", "result")

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self._awaited: Any = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_waiting = False

    def begin(self) -> None:
        """Run it up to its first wait."""
        try:
            self._awaited = self._work.send(None)
        except StopIteration as end:
            self.result = end.value
        except BaseException as error:  # raised when the task is awaited
            self.error = error
        else:
            self.is_waiting = True

    def send(self, value: Any) -> Any:
        """Yield its first awaitable at the first step of the task; then continue it."""
        if self.error is not None:
            raise self.error
        if not self.is_waiting:
            raise StopIteration(self.result)
        awaited, self._awaited = self._awaited, None
        return self._work.send(value) if awaited is None else awaited

    def throw(self, *details: Any) -> Any:
        """Cancel it, also before the first step of the task."""
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
        raise NotImplementedError  # a task steps it
