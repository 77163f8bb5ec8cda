"""Beginning a coroutine as a task whose first steps are made at once, on every Python.

What waits for nothing is done then before anybody has to wait for it, and costs no turn of the
event loop. From Python 3.12 on asyncio can do that by itself.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

_T = TypeVar("_T")


def begin(work: Coroutine[Any, Any, _T]) -> asyncio.Future[_T]:
    """Begins work as a task of its own; returns it, or what is done already.

    It runs as far as its first wait before this returns, as that task: what it begins belongs to
    the task (a time limit, a group), and what it sets in its context is seen by nobody else.
    """
    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, eager_start=True)
    begun = _Begun(work)
    context = contextvars.copy_context()
    task: asyncio.Task[_T] = loop.create_task(begun, context=context)
    beginner = asyncio.current_task()
    assert beginner is not None  # whoever calls this is stepped by one
    # The documented way for whoever steps a task that is not asyncio's own
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
    """A coroutine that has run as far as its first wait, and goes on where its task steps it.

    Attributes:
        result: What it returned, where it has.
        error: What it raised, where it has.
        is_waiting: It has done neither yet.
    """

    __slots__ = ("_awaited", "_work", "error", "is_waiting", "result")

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self._awaited: Any = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_waiting = False

    def begin(self) -> None:
        """Runs it as far as its first wait."""
        try:
            self._awaited = self._work.send(None)
        except StopIteration as end:
            self.result = end.value
        except BaseException as error:  # raised where the task is waited for
            self.error = error
        else:
            self.is_waiting = True

    def send(self, value: Any) -> Any:
        """Hands on what is awaited, at the first step of the task; goes on at the others."""
        if self.error is not None:
            raise self.error
        if not self.is_waiting:
            raise StopIteration(self.result)
        awaited, self._awaited = self._awaited, None
        return self._work.send(value) if awaited is None else awaited

    def throw(self, *details: Any) -> Any:
        """Cancels it, also before the first step of the task."""
        if self.error is not None or not self.is_waiting:
            return self.send(None)
        awaited, self._awaited = self._awaited, None
        if awaited is not None and awaited.cancel():  # as a task does with what it waits for
            return awaited
        return self._work.throw(*details)

    def close(self) -> None:
        """Ends it."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise NotImplementedError  # a task steps it
