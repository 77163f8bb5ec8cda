"""Poll the states of runs and follow the events of one run, and publish both as updates.

Errors do not end the polling: they are reported, and polling is retried.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any, Final

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
    apply,
)

_POLL_SECONDS: Final = 1.0
_SLOW_SECONDS: Final = 2.0
_LONGEST_SECONDS: Final = 8.0
_SELECTION_SECONDS: Final = 0.2
"""Delay before a selected run is followed: the user may be scrolling past it."""

_PAUSE_FACTOR: Final = 5
"""Minimum pause after a poll, relative to the duration of the poll."""


@define(eq=False)
class Board:
    """The current view, with notifications of its changes.

    Attributes:
        view: The current view.
    """

    view: View = attrs.field(factory=View)
    _changed: asyncio.Event = attrs.field(factory=asyncio.Event)

    def update(self, update: Update) -> None:
        """Apply an update to the view."""
        view = apply(self.view, update)
        if view is not self.view:
            self.view = view
            self._changed.set()
            self._changed = asyncio.Event()

    async def wait(self, condition: Callable[[View], bool]) -> None:
        """Wait until a condition on the view is true."""
        while not condition(self.view):
            await self._changed.wait()


@define(eq=False)
class BoardFeed:
    """Feed of a board: polls runs until it is cancelled.

    Attributes:
        runs: The source of the runs.
        board: The receiver of the updates.
    """

    runs: Runs
    board: Board
    _poll_requested: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def run(self) -> None:
        """Poll until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._survey())
            group.create_task(self._follow_selected())

    def poll_now(self) -> None:
        """Poll the states of the runs immediately."""
        self._poll_requested.set()

    # --- the list --------------------------------------------------------------------------------

    async def _survey(self) -> None:
        failures = 0
        while True:
            query, started = self.board.view.query, time.monotonic()
            self._poll_requested.clear()
            try:
                await self._report_if_slow(self._read_rows())
                await self._read_waiting()
                failures = 0
            except (ConverseError, OSError) as error:
                failures += 1
                if isinstance(error, RequestError) and query.after:
                    self.board.update(PagesLost(query))
                else:
                    self.board.update(RowsFailed(query, str(error)))
            pause = _POLL_SECONDS
            if not failures:  # a longer pause follows a slow poll
                pause = max(pause, _PAUSE_FACTOR * (time.monotonic() - started))
            await self._pause(compute_backoff(pause, failures, _LONGEST_SECONDS))

    async def _read_rows(self) -> None:
        query = self.board.view.query
        rows = await self.runs.survey(states=query.states, after=query.after, limit=PAGE + 1)
        self.board.update(RowsRead(query, tuple(rows[:PAGE]), len(rows) > PAGE))

    async def _read_waiting(self) -> None:
        view = self.board.view
        summary = view.summary
        if summary is not None and (summary.waiting or view.waiting):
            with suppress(UnknownConversationError):
                waiting = await self.runs.survey_approvals(summary.id)
                self.board.update(WaitingRead(summary.id, tuple(waiting)))

    async def _report_if_slow(self, work: Coroutine[Any, Any, None]) -> None:
        """Await work, and report meanwhile if it is slow."""
        query, task = self.board.view.query, asyncio.ensure_future(work)
        try:
            await asyncio.wait({task}, timeout=_SLOW_SECONDS)
            if not task.done():
                self.board.update(RowsFailed(query, "There are no answers yet."))
            await task
        finally:
            task.cancel()

    async def _pause(self, seconds: float) -> None:
        """Wait for the interval, a requested poll, or another query or selection."""
        query, selected = self.board.view.query, self.board.view.selected
        changed = self.board.wait(lambda view: (view.query, view.selected) != (query, selected))
        waits = {asyncio.ensure_future(each) for each in (self._poll_requested.wait(), changed)}
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
        """Follow the events of a run, with reconnects; only the last events of a long run."""
        await asyncio.sleep(_SELECTION_SECONDS)
        summary, failures = self.board.view.summary, 0
        if summary is None:
            return
        self.board.update(CourseStarted(run_id, max(0, summary.sequence - LINES)))
        while True:
            before = self.board.view.course.sequence
            try:
                await self._listen(run_id)
            except UnknownConversationError:
                self.board.update(CourseFailed(run_id, "This run was deleted."))
                return
            except RequestError:  # the log has become shorter: another run has replaced it
                self.board.update(CourseStarted(run_id, 0))
            except (ConverseError, OSError) as error:
                self.board.update(CourseFailed(run_id, str(error)))
            has_new_events = self.board.view.course.sequence > before
            failures = 0 if has_new_events else failures + 1
            await asyncio.sleep(compute_backoff(_POLL_SECONDS, failures, _LONGEST_SECONDS))

    async def _listen(self, run_id: str) -> None:
        after = self.board.view.course.sequence
        async with aclosing(self.runs.watch(run_id, after=after)) as events:
            async for event in events:
                self.board.update(EventReceived(run_id, event))
                await asyncio.sleep(0)  # lets the screen draw if there are many events
