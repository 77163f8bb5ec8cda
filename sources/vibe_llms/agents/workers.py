"""Run worker: claims queued runs, executes them until they rest, and retries temporary failures."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Final

import attrs

from vibe_llms.agents.executing import RunExecutor
from vibe_llms.agents.outcomes import TEMPORARY_ERRORS, write_outcome
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs.inbox import MESSAGE_TYPES
from vibe_llms.conversations.run_logs.log import LoggedEvent, LogLine, claim_at_once
from vibe_llms.conversations.run_logs.publishing import subscribe
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.engine import RunEndedEvent
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent, LogEvent
from vibe_llms.events.runs import RunRetriedEvent
from vibe_llms.exceptions import (
    ConverseError,
    CorruptionError,
    Stage,
    StoreError,
    StoreUnavailableError,
    UnknownConversationError,
)
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.clocks import compute_backoff
from vibe_llms.foundation.portal import finish
from vibe_llms.runs.compacting import compact_logs, find_moment
from vibe_llms.runs.delivering import deliver
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.opening import ClaimedRun
from vibe_llms.runs.spending import count_retries, count_starts
from vibe_llms.runs.summaries import RunSummary
from vibe_llms.runs.surveying import OPEN, is_pausing

_LOGGER = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.5
"""Pause before the next attempt after an error of the store; messages do not shorten it."""


@frozen(kw_only=True)
class WorkerSettings:
    """Concurrency and retries of a run worker.

    Attributes:
        runs: Runs executed at once; others wait.
        scan_seconds: Interval between scans of the store for runs that other processes queued.
        starts: Consecutive starts of a run without progress before it fails; a run that kills its
            worker makes no progress.
        attempts: Consecutive temporary failures before a run fails.
        retry_seconds: Pause after the first temporary failure; it doubles each time.
        longest_retry_seconds: Upper bound of that pause.
        grace_seconds: Time for runs to finish when a worker with queues is closed.
        tidy_seconds: Interval between compactions of the logs of runs that ended long ago.
    """

    runs: int = 64
    scan_seconds: float = 5.0
    starts: int = 5
    attempts: int = 12
    retry_seconds: float = 1.0
    longest_retry_seconds: float = 60.0
    grace_seconds: float = 10.0
    tidy_seconds: float = 3_600.0


@define(eq=False)
class _Active:
    """A run that this process has taken on.

    Attributes:
        task: Claims and executes the run until it rests.
        woken: Set by messages to the run since its log was claimed.
        execution: The execution in progress.
        is_pausing: Whether the run waits for its next attempt.
    """

    task: asyncio.Task[None] = attrs.field(init=False)
    woken: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    execution: asyncio.Task[str] | None = attrs.field(default=None, init=False)
    is_pausing: bool = attrs.field(default=False, init=False)


class RunWorker:
    """Worker that executes the runs of a store in this process.

    Several workers may share a store: only the worker that has claimed a run's log executes the
    run.

    Args:
        executor: Executes one run.
        settings: Concurrency and retries.
        index: Index of the states of runs; by default a new one.

    Attributes:
        on_continued: Called with the id of each compacted fork in which a run continues; by default
            this worker takes it on.
    """

    def __init__(
        self,
        executor: RunExecutor,
        settings: WorkerSettings | None = None,
        index: RunIndex | None = None,
    ) -> None:
        self.executor = executor
        self.settings = settings or WorkerSettings()
        self._room = asyncio.Semaphore(self.settings.runs)
        self._active: dict[str, _Active] = {}
        self._damaged: set[str] = set()
        self._scanning: asyncio.Task[None] | None = None
        self._tidied = time.monotonic()
        self._tidying: asyncio.Task[None] | None = None
        self._is_closing = False
        self.index = index or RunIndex(executor.store)
        self.index.active_ids = self._active
        self.on_continued: Callable[[str], None] = self.wake

    @property
    def working(self) -> Sequence[str]:
        """The ids of the runs that this process has taken on."""
        return tuple(self._active)

    @property
    def store(self) -> ConversationStore:
        """The store of the runs."""
        return self.executor.store

    @property
    def deferred_name(self) -> str:
        """The name under which logs record this process's deferred requests."""
        return self.executor.deferred.name

    async def start(self) -> None:
        """Start as the runner of this process: execute all that the store has queued."""
        self._is_closing = False
        await self.executor.deferred.start(self.wake)

        async def wake_all(run_ids: Sequence[str]) -> None:
            for run_id in run_ids:
                self.wake(run_id)

        self.start_scanning(wake_all)

    async def close(self) -> None:
        """Release all runs so that other workers can continue them."""
        self._is_closing = True
        tasks = [each.task for each in self._active.values()]
        tasks += filter(None, [self._scanning, self._tidying])
        for task in tasks:
            task.cancel()
        await finish(asyncio.gather(*tasks, return_exceptions=True))
        await self.executor.deferred.close()
        await self.executor.connections.drop()

    @property
    def has_room(self) -> bool:
        """True if a new run would start at once."""
        return not self._room.locked() and not self._is_closing

    def wake(self, run_id: str) -> None:
        """Take on a run that is due; if this worker already has it, notify its task."""
        if (active := self._active.get(run_id)) is not None:
            active.woken.set()
            return
        self._take_on(run_id)

    def begin(self, claimed: ClaimedRun) -> None:
        """Execute a new run whose log was claimed by its request."""
        run_id = claimed.conversation.id
        if run_id in self._active:  # a scan was faster
            claimed.release()
            self.wake(run_id)
            return
        # Release the claim even if the task is cancelled before it starts.
        self._take_on(run_id, claimed).add_done_callback(lambda _: claimed.release())

    async def interrupt(self, run_id: str) -> None:
        """Cancel a run's execution in this process and wait for its end."""
        active = self._active.get(run_id)
        if active is not None and active.execution is not None:
            active.execution.cancel()
            await asyncio.wait([active.execution])

    async def wait_until_idle(self, run_id: str) -> bool:
        """Wait until this process has no work on a run; return ``False`` after an error."""
        task: asyncio.Task[None] | None = None
        while (active := self._active.get(run_id)) is not None:
            task = active.task
            await asyncio.wait([task])
        return task is None or task.cancelled() or task.exception() is None

    def _take_on(self, run_id: str, claimed: ClaimedRun | None = None) -> asyncio.Task[None]:
        active = self._active[run_id] = _Active()
        active.task = asyncio.create_task(self._process(run_id, active, claimed))
        active.task.add_done_callback(lambda task: self._forget(run_id, task))
        return active.task

    def _forget(self, run_id: str, task: asyncio.Task[None]) -> None:
        active = self._active.pop(run_id)
        self.index.touch(run_id)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, StoreUnavailableError):  # the next scan finds the run
            _LOGGER.warning("run %s is delayed: %s", run_id, error)
        elif error is not None:
            if isinstance(error, CorruptionError):
                self._damaged.add(run_id)  # scans skip it; a message to the run tries again
            _LOGGER.error("run %s cannot be executed: %s", run_id, error, exc_info=error)
        elif active.woken.is_set():
            self.wake(run_id)

    # --- scanning the store ----------------------------------------------------------------------

    def start_scanning(
        self, dispatch: Callable[[Sequence[str]], Awaitable[None]], *, tidies: bool = True
    ) -> None:
        """Scan the store at intervals until :meth:`close`.

        A scan finds runs that no process has queued, such as after a crash.

        Args:
            dispatch: Receives the runs that are due; may raise StoreError.
            tidies: Compact old logs, too.
        """
        self._scanning = asyncio.create_task(self._scan(dispatch, tidies))

    async def _scan(
        self, dispatch: Callable[[Sequence[str]], Awaitable[None]], tidies: bool
    ) -> None:
        while True:
            try:
                await dispatch(await finish(asyncio.to_thread(self.survey_open)))
                # In the background: it may take long.
                if tidies and (self._tidying is None or self._tidying.done()):
                    self._tidying = asyncio.create_task(self._tidy())
            except StoreError as error:
                _LOGGER.warning("the store cannot be scanned: %s", error)
            await asyncio.sleep(self.settings.scan_seconds)

    def survey_open(self) -> list[str]:
        """Return the runs that are due and that this process has not taken on. Does file work.

        Messages of processes that died before the delivery are delivered.

        Raises:
            StoreError: The store cannot be read.
        """
        store = self.store
        for identity in store.survey():
            with suppress(StoreError):
                if not store.open_inbox(identity).is_empty:
                    deliver(store, identity, wait_seconds=0)
        self.index.refresh(check_all=True)
        found = self.index.survey(states=OPEN)
        return [each.id for each in found if each.spec and self._is_due(each)]

    def _is_due(self, run: RunSummary) -> bool:
        active = self._active.get(run.id)
        if run.id in self._damaged or (active is not None and not active.is_pausing):
            return False
        # A run that waits for a retry has a detail: the reason of the failure.
        return not run.detail or not is_pausing(self.store, run.id)

    async def _tidy(self) -> None:
        try:
            await finish(asyncio.to_thread(self.tidy))
        except StoreError as error:
            _LOGGER.warning("logs cannot be compacted: %s", error)

    def tidy(self) -> None:
        """Compact the logs of runs that ended long ago, once per interval. Does file work.

        Several workers may do so: each log is claimed first.

        Raises:
            StoreError: The store cannot be read.
        """
        if time.monotonic() < self._tidied + self.settings.tidy_seconds:
            return
        self._tidied = time.monotonic()
        before = find_moment(self.executor.limits.log_days)
        for compaction in compact_logs(self.store, before, lambda: not self._is_closing):
            _LOGGER.info(
                "compacted the log of %s up to event %d", compaction.identity, compaction.until
            )

    # --- executing a run -------------------------------------------------------------------------

    async def _process(self, run_id: str, active: _Active, claimed: ClaimedRun | None) -> None:
        """Execute a run until it rests and has no new messages."""
        if claimed is not None and not self.has_room:
            claimed.release()  # do not block other processes while it waits
            claimed = None
        while True:
            async with self._room:
                try:
                    run, claimed = claimed or await self._claim(run_id, active), None
                    pause = None if run is None else await self._execute(run, active)
                    if pause is None:
                        return  # a later message takes the run on again
                except (CorruptionError, StoreUnavailableError, UnknownConversationError):
                    raise
                except StoreError as error:  # the disk is full, and the log cannot record it
                    pause = _wait_for_store(run_id, error)
            await self._pause(run_id, active, pause)

    async def _pause(self, run_id: str, active: _Active, seconds: float) -> None:
        """Wait for the next attempt; a message to the run ends the wait."""
        if seconds <= _PAUSE_SECONDS:
            await asyncio.sleep(seconds)
            return
        active.is_pausing = True
        try:
            with suppress(TimeoutError, StoreError):
                async with asyncio.timeout(seconds):
                    while True:
                        await active.woken.wait()
                        active.woken.clear()
                        if not await asyncio.to_thread(is_pausing, self.store, run_id):
                            return
        finally:
            active.is_pausing = False

    async def _claim(self, run_id: str, active: _Active) -> ClaimedRun | None:
        """Claim the log of a run that is due; return ``None`` if it is not, or is claimed."""
        active.woken.clear()  # messages up to now are in the log
        claiming = asyncio.create_task(asyncio.to_thread(self._claim_due, run_id))
        try:
            return await finish(claiming)
        except asyncio.CancelledError:  # the thread continues and may have the claim by now
            if not (claiming.cancelled() or claiming.exception()) and (run := claiming.result()):
                run.release()
            raise

    def _claim_due(self, run_id: str) -> ClaimedRun | None:
        deliver(self.store, run_id, wait_seconds=0)
        due, log = self._find_due(run_id), self.store.open_log(run_id)
        if due is None or not claim_at_once(log):
            return None
        claimed: ClaimedRun | None = None
        try:
            events = log.read()
            # If the log has grown, another process may have executed the run before the claim.
            if events[-1].sequence == due or self._find_due(run_id) is not None:
                conversation = Conversation.restore(self.store, run_id)
                claimed = ClaimedRun(conversation=conversation, log=log, events=events)
        finally:
            if claimed is None:
                log.close()
        return claimed

    def _find_due(self, run_id: str) -> int | None:
        """Return the number of the last event of a run that is due; else ``None``."""
        summary = self.index.read_summary(run_id)
        return summary.sequence if summary.state in OPEN and summary.spec else None

    async def _execute(self, claimed: ClaimedRun, active: _Active) -> float | None:
        """Execute a claimed run once; return the pause before the next attempt.

        ``None`` means that the run rests.
        """
        run_id, log = claimed.conversation.id, claimed.events
        starts = count_starts(log)
        if starts >= self.settings.starts:
            claimed.release()
            detail = f"It was started {starts} times without any progress."
            error = ConverseError(detail=detail, stage=Stage.EXECUTE)
            return await self._settle(run_id, log, error)
        execution = active.execution = asyncio.create_task(self.executor.execute(claimed))
        try:
            with self._listening(run_id, active):
                await asyncio.wait([execution])
        except asyncio.CancelledError:
            execution.cancel()
            await finish(asyncio.wait([execution]))
            raise
        finally:
            active.execution = None
            claimed.release()  # the execution may have failed before it took the claim
        if execution.cancelled():
            return 0.0
        if execution.exception() is None and (fork := execution.result()):
            self.index.touch(fork)
            self.on_continued(fork)
        return await self._settle(run_id, log, execution.exception())

    def _listening(self, run_id: str, active: _Active) -> AbstractContextManager[None]:
        """Wake a run after its execution if it gets a message during the execution.

        Messages from other processes do not wake a run in this process, and a message may arrive
        too late for the execution to act on it.
        """
        topic = self.store.open_log(run_id).topic
        if topic is None:  # the log does not publish its lines
            active.woken.set()
            return nullcontext()

        def receive(line: LogLine) -> None:
            if line.word in MESSAGE_TYPES:
                active.woken.set()

        return subscribe(topic, receive)

    async def _settle(
        self, run_id: str, log: Sequence[LoggedEvent], error: BaseException | None
    ) -> float | None:
        """Record the failure of an execution in the log; return the pause as :meth:`_execute`."""
        if error is None:
            return None
        if isinstance(error, StoreError) and not isinstance(error, TEMPORARY_ERRORS):
            return _wait_for_store(run_id, error)  # another process has the log, or a full disk
        if not isinstance(error, ConverseError):
            _LOGGER.error("run %s failed", run_id, exc_info=error)
            error = ConverseError(detail=repr(error), stage=Stage.EXECUTE)
        choose = partial(self._choose_outcome, run_id, error)
        outcome = await finish(asyncio.to_thread(write_outcome, self.store, run_id, log, choose))
        return outcome.seconds if isinstance(outcome, RunRetriedEvent) else 0.0

    def _choose_outcome(
        self, run_id: str, error: ConverseError, log: Sequence[LoggedEvent]
    ) -> LogEvent:
        settings, attempt = self.settings, count_retries(log) + 1
        if isinstance(error, TEMPORARY_ERRORS) and attempt <= settings.attempts:
            first, longest = settings.retry_seconds, settings.longest_retry_seconds
            seconds = compute_backoff(first, attempt - 1, longest)
            return RunRetriedEvent(detail=str(error), attempt=attempt, seconds=seconds)
        is_flow = any(isinstance(each.event, FlowStartedEvent) for each in log)
        end = FlowEndedEvent if is_flow else RunEndedEvent
        return end(run_id=run_id, reason="failed", detail=str(error), error=error)


def _wait_for_store(run_id: str, error: StoreError) -> float:
    """Log that a run waits for the store; return the pause."""
    _LOGGER.warning("run %s is delayed: %s", run_id, error)
    return _PAUSE_SECONDS
