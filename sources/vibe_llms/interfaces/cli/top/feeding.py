"""Poll the states of runs and the events of one run, and publish them.

Errors do not end the polling: they are reported, and it is retried.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final, TypeAlias

import attrs

from vibe_llms.agents.interfaces import Runs
from vibe_llms.exceptions import ConverseError, RequestError, UnknownConversationError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.clocks import compute_backoff
from vibe_llms.interfaces.cli.top.courses import LINES
from vibe_llms.interfaces.cli.top.views import (
    PAGE,
    CourseFailed,
    CourseStarted,
    EventReceived,
    PagesLost,
    RowsFailed,
    RowsRead,
    Update,
    View,
    WaitingRead,
    fold,
)
from vibe_llms.runs.summaries import RunSummary

Naming: TypeAlias = Callable[[Sequence[RunSummary]], Awaitable[Sequence[RunSummary]]]

_POLL_SECONDS: Final = 1.0
_SLOW_SECONDS: Final = 2.0
_LONGEST_SECONDS: Final = 8.0
_REST_SECONDS: Final = 0.2
"""Delay before following a run, so that runs passed while scrolling are not followed."""

_SHARE: Final = 5
"""Factor of the pause after a poll to the poll's duration."""


@define(eq=False)
class Board:
    """Current view, with notification of changes.

    Attributes:
        view: The current view.
    """

    view: View = attrs.field(factory=View)
    _changed: asyncio.Event = attrs.field(factory=asyncio.Event)

    def tell(self, update: Update) -> None:
        """Fold an update into the view."""
        view = fold(self.view, update)
        if view is not self.view:
            self.view = view
            self._changed.set()
            self._changed = asyncio.Event()

    async def wait(self, is_so: Callable[[View], bool]) -> None:
        """Wait until a condition is true."""
        while not is_so(self.view):
            await self._changed.wait()


@define(eq=False)
class BoardFeed:
    """Feed of a board: polls runs until cancelled.

    Attributes:
        runs: Source of the runs.
        board: Receiver of the updates.

    Args:
        name: Returns a title for runs without a name.
    """

    runs: Runs
    board: Board
    _name: Naming | None = None
    _wanted: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def run(self) -> None:
        """Poll until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._survey())
            group.create_task(self._follow_selected())

    def hurry(self) -> None:
        """Poll the states of the runs immediately."""
        self._wanted.set()

    # --- the list --------------------------------------------------------------------------------

    async def _survey(self) -> None:
        failures = 0
        while True:
            query, begun = self.board.view.query, time.monotonic()
            self._wanted.clear()
            try:
                await self._tell_slow(self._read_rows())
                await self._read_waiting()
                failures = 0
            except (ConverseError, OSError) as error:
                failures += 1
                if isinstance(error, RequestError) and query.after:
                    self.board.tell(PagesLost(query))
                else:
                    self.board.tell(RowsFailed(query, str(error)))
            pause = max(_POLL_SECONDS, _SHARE * (time.monotonic() - begun) * (not failures))
            await self._pause(compute_backoff(pause, failures, _LONGEST_SECONDS))

    async def _read_rows(self) -> None:
        query = self.board.view.query
        rows = await self.runs.survey(states=query.states, after=query.after, limit=PAGE + 1)
        page = rows[:PAGE] if self._name is None else await self._name(rows[:PAGE])
        self.board.tell(RowsRead(query, tuple(page), len(rows) > PAGE))

    async def _read_waiting(self) -> None:
        view = self.board.view
        summary = view.summary
        if summary is not None and (summary.waiting or view.waiting):
            with suppress(UnknownConversationError):
                found = await self.runs.survey_approvals(summary.id)
                self.board.tell(WaitingRead(summary.id, tuple(found)))

    async def _tell_slow(self, work: Coroutine[Any, Any, None]) -> None:
        """Execute work, and report if it is slow."""
        query, task = self.board.view.query, asyncio.ensure_future(work)
        try:
            await asyncio.wait({task}, timeout=_SLOW_SECONDS)
            if not task.done():
                self.board.tell(RowsFailed(query, "There are no answers yet."))
            await task
        finally:
            task.cancel()

    async def _pause(self, seconds: float) -> None:
        """Wait for the interval, a hurry, or another query."""
        query, selected = self.board.view.query, self.board.view.selected
        other = self.board.wait(lambda view: (view.query, view.selected) != (query, selected))
        waits = {asyncio.ensure_future(each) for each in (self._wanted.wait(), other)}
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    # --- one run ---------------------------------------------------------------------------------

    async def _follow_selected(self) -> None:
        while True:
            run_id = self.board.view.selected
            task = asyncio.ensure_future(self._follow(run_id))
            try:
                await self._wait_for_other(run_id)
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _wait_for_other(self, run_id: str) -> None:
        await self.board.wait(lambda view: view.selected != run_id)

    async def _follow(self, run_id: str) -> None:
        """Follow the events of a run, with reconnects; of a long run, only the end."""
        await asyncio.sleep(_REST_SECONDS)
        summary, failures = self.board.view.summary, 0
        if summary is None:
            return
        self.board.tell(CourseStarted(run_id, max(0, summary.sequence - LINES)))
        while True:
            known = self.board.view.course.sequence
            try:
                await self._listen(run_id)
            except UnknownConversationError:
                self.board.tell(CourseFailed(run_id, "This run was deleted."))
                return
            except RequestError:  # the log is shorter than what was read: another run replaced it
                self.board.tell(CourseStarted(run_id, 0))
            except (ConverseError, OSError) as error:
                self.board.tell(CourseFailed(run_id, str(error)))
            has_heard = self.board.view.course.sequence > known
            failures = 0 if has_heard else failures + 1
            await asyncio.sleep(compute_backoff(_POLL_SECONDS, failures, _LONGEST_SECONDS))

    async def _listen(self, run_id: str) -> None:
        after = self.board.view.course.sequence
        async with aclosing(self.runs.watch(run_id, after=after)) as told:
            async for event in told:
                self.board.tell(EventReceived(run_id, event))
                await asyncio.sleep(0)  # lets the screen draw between many events
