"""Who hosts runs: performs whatever was asked for and nobody is at, until it comes to rest."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Final

from vibe_llms.agents.outcomes import PASSING, write_outcome
from vibe_llms.agents.performing import OrderPerformer
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs.announcing import find_place, hearing
from vibe_llms.conversations.run_logs.inbox import LETTER_WORDS
from vibe_llms.conversations.run_logs.log import LoggedEvent, LogLine, claim_at_once
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
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.clocks import double
from vibe_llms.foundation.portal import finish
from vibe_llms.runs.compacting import compact_logs, find_moment
from vibe_llms.runs.delivering import deliver
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.opening import BegunRun
from vibe_llms.runs.places import produce_inbox, produce_log
from vibe_llms.runs.spending import count_begun, count_retried
from vibe_llms.runs.summaries import RunSummary
from vibe_llms.runs.surveying import OPEN, is_pausing

_LOGGER = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.5
"""How long a store is waited for that is not there; so short a wait nobody ends."""


@frozen(kw_only=True)
class HostSettings:
    """How much is performed at once, and how often what fails is tried.

    Attributes:
        runs: How many runs work at once; others wait for their turn.
        look_seconds: How often the store is looked through for what other processes have asked for.
        begun: How often a run may be begun without coming any further, as one that kills its host.
        attempts: How often, one after the other, what a run needs may be out of reach.
        retry_seconds: How long is waited after the first of these; each time twice as long.
        longest_retry_seconds: And at most.
        grace_seconds: How long runs of a worker may work on when it is closed.
        tidy_seconds: How often logs of runs that ended long ago are compacted; the first time
            after as long.
    """

    runs: int = 64
    look_seconds: float = 5.0
    begun: int = 5
    attempts: int = 12
    retry_seconds: float = 1.0
    longest_retry_seconds: float = 60.0
    grace_seconds: float = 10.0
    tidy_seconds: float = 3_600.0


class RunHost:
    """Performs the runs of a store that somebody has asked for.

    Several hosts may share a store: whoever has claimed a run's log performs it.

    Args:
        performer: Performs one.
        settings: How many, and how often.
        index: Knows where they stand; by default one of its own.
    """

    def __init__(
        self,
        performer: OrderPerformer,
        settings: HostSettings | None = None,
        index: RunIndex | None = None,
    ) -> None:
        self.performer = performer
        self.settings = settings or HostSettings()
        self._room = asyncio.Semaphore(self.settings.runs)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._works: dict[str, asyncio.Task[None]] = {}
        self._said: dict[str, asyncio.Event] = {}  # of those that are seen to
        self._pausing: set[str] = set()
        self._looking: asyncio.Task[None] | None = None
        self._tidied = time.monotonic()
        self._tidying: asyncio.Task[None] | None = None
        self._is_closing = False
        self.index = index or RunIndex(performer.store)
        self.index.tended = self._tasks

    @property
    def working(self) -> Sequence[str]:
        """The ids of the runs that are seen to now."""
        return tuple(self._tasks)

    @property
    def store(self) -> ConversationStore:
        """Where the runs are."""
        return self.performer.store

    @property
    def desk_name(self) -> str:
        """By which logs say that requests are at a vendor by this process's hand."""
        return self.performer.desk.name

    async def start(self) -> None:
        """Takes up what was broken off, and goes on looking for more."""
        self._is_closing = False
        await self.performer.desk.start(self.wake)
        self._looking = asyncio.create_task(self._look())

    async def close(self) -> None:
        """Lets go of all runs; whoever hosts them next goes on with them."""
        self._is_closing = True
        tasks = [*self._tasks.values(), *filter(None, [self._looking, self._tidying])]
        for task in tasks:
            task.cancel()
        await finish(asyncio.gather(*tasks, return_exceptions=True))
        await self.performer.desk.close()
        await self.performer.connections.drop()

    def wake(self, run_id: str) -> None:
        """Sees to a run soon, of which something was said."""
        if run_id in self._tasks:
            self._said[run_id].set()
            return
        self._begin_to_tend(run_id)

    @property
    def has_room(self) -> bool:
        """Whether a run that is asked for now would be begun at once."""
        return not self._room.locked() and not self._is_closing

    def begin(self, begun: BegunRun) -> None:
        """Performs a run that was just ordered; its log was claimed for that."""
        run_id = begun.conversation.id
        if run_id in self._tasks:  # whoever looks through the store has come upon it
            begun.let_go()
            self.wake(run_id)
            return
        task = self._begin_to_tend(run_id, begun)
        # Also where it is cancelled before it has run: nobody else would let go of the log.
        task.add_done_callback(lambda _: begun.let_go())

    def _begin_to_tend(self, run_id: str, begun: BegunRun | None = None) -> asyncio.Task[None]:
        self._said[run_id] = asyncio.Event()
        task = self._tasks[run_id] = asyncio.create_task(self._tend(run_id, begun))
        task.add_done_callback(lambda _: self._forget(run_id))
        return task

    async def interrupt(self, run_id: str) -> None:
        """Breaks off a run that works here, and waits until it has come to rest."""
        work = self._works.get(run_id)
        if work is not None:
            work.cancel()
            await asyncio.wait([work])

    async def rest(self, run_id: str) -> None:
        """Waits until a run is not seen to here any longer."""
        while (task := self._tasks.get(run_id)) is not None:
            await asyncio.wait([task])

    def _forget(self, run_id: str) -> None:
        task = self._tasks.pop(run_id)
        self.index.touch(run_id)
        is_wanted = self._said.pop(run_id).is_set()
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, StoreUnavailableError):  # whoever looks through the store finds it
            _LOGGER.warning("run %s waits: %s", run_id, error)
        elif error is not None:
            _LOGGER.error("run %s is left alone: %s", run_id, error, exc_info=error)
        elif is_wanted:
            self.wake(run_id)

    async def _look(self) -> None:
        while True:
            try:
                for run_id in await finish(asyncio.to_thread(self.survey_open)):
                    self.wake(run_id)
                self.begin_tidying()
            except StoreError as error:
                _LOGGER.warning("the store cannot be looked through: %s", error)
            await asyncio.sleep(self.settings.look_seconds)

    def begin_tidying(self) -> None:
        """Lets logs be compacted beside all else: there may be more than anybody shall wait for."""
        if self._tidying is None or self._tidying.done():
            self._tidying = asyncio.create_task(self._tidy())

    async def _tidy(self) -> None:
        try:
            await finish(asyncio.to_thread(self.tidy))
        except StoreError as error:
            _LOGGER.warning("no logs can be compacted: %s", error)

    def survey_open(self) -> list[str]:
        """Returns the runs that somebody has to perform now, and that nobody performs here.

        Letters of whoever has died before delivering them are delivered. Does file work.

        Raises:
            StoreError: The store cannot be read.
        """
        store = self.store
        for identity in store.survey():
            with suppress(StoreError):
                if not produce_inbox(store, identity).is_empty:
                    deliver(store, identity, wait_seconds=0)
        self.index.refresh(all_of_them=True)
        found = self.index.survey(states=OPEN)
        return [each.id for each in found if each.order and self._is_open(each)]

    def _is_open(self, run: RunSummary) -> bool:
        """Tells whether a run that somebody has to perform is one for now."""
        if run.id in self._tasks and run.id not in self._pausing:
            return False
        return not run.detail or not is_pausing(self.store, run.id)  # which says why

    def tidy(self) -> None:
        """Compacts the logs of runs that ended long ago, where it was not done for a while.

        Several hosts may do so: whoever has claimed a log compacts it. Does file work.

        Raises:
            StoreError: The store cannot be read.
        """
        if time.monotonic() < self._tidied + self.settings.tidy_seconds:
            return
        self._tidied = time.monotonic()
        before = find_moment(self.performer.limits.log_days)
        for done in compact_logs(self.store, before, lambda: not self._is_closing):
            _LOGGER.info("the log of %s was compacted up to event %d", done.identity, done.until)

    async def _tend(self, run_id: str, begun: BegunRun | None = None) -> None:
        """Performs a run until it has come to rest, and nothing was said since."""
        if begun is not None and not self.has_room:
            begun.let_go()  # while it waits here, others may have use for its log
            begun = None
        while True:
            async with self._room:
                try:
                    taken, begun = begun or await self._take(run_id), None
                    pause = None if taken is None else await self._perform(taken)
                    if pause is None:
                        return  # and whoever has said something meanwhile has woken us again
                except (CorruptionError, StoreUnavailableError, UnknownConversationError):
                    raise
                except StoreError as error:  # the disk is full, and the log cannot say so
                    pause = _wait_for_store(run_id, error)
            await self._pause(run_id, pause)

    async def _pause(self, run_id: str, seconds: float) -> None:
        """Waits before a run is looked at again, unless something is said to it meanwhile."""
        if seconds <= _PAUSE_SECONDS:
            await asyncio.sleep(seconds)
            return
        said = self._said[run_id]
        self._pausing.add(run_id)
        try:
            with suppress(TimeoutError, StoreError):
                async with asyncio.timeout(seconds):
                    while True:
                        await said.wait()
                        said.clear()
                        if not await asyncio.to_thread(is_pausing, self.store, run_id):
                            return
        finally:
            self._pausing.discard(run_id)

    async def _take(self, run_id: str) -> BegunRun | None:
        """Claims the log of a run that has to go on; ``None`` where it need not, or cannot now."""
        self._said[run_id].clear()  # what was said by now is in the log
        taking = asyncio.create_task(asyncio.to_thread(self._take_up, run_id))
        try:
            return await finish(taking)
        except asyncio.CancelledError:  # a thread cannot be stopped: it may have the claim by now
            if not (taking.cancelled() or taking.exception()) and (begun := taking.result()):
                begun.let_go()
            raise

    def _take_up(self, run_id: str) -> BegunRun | None:
        deliver(self.store, run_id, wait_seconds=0)
        due, log = self._find_due(run_id), produce_log(self.store, run_id)
        if due is None or not claim_at_once(log):
            return None
        begun: BegunRun | None = None
        try:
            events = log.read()
            # Else another has gone on with it just before it was claimed.
            if events[-1].sequence == due or self._find_due(run_id) is not None:
                conversation = Conversation.restore(self.store, run_id)
                begun = BegunRun(conversation=conversation, log=log, events=events)
        finally:
            if begun is None:
                log.close()
        return begun

    def _find_due(self, run_id: str) -> int | None:
        """Returns the number of the last event of a run that has to go on; else ``None``."""
        summary = self.index.read_summary(run_id)
        return summary.sequence if summary.state in OPEN and summary.order else None

    async def _perform(self, begun: BegunRun) -> float | None:
        """Performs a run once; returns how long to wait before it is looked at again.

        ``None`` where it has come to rest.
        """
        run_id, log = begun.conversation.id, begun.events
        times = count_begun(log)
        if times >= self.settings.begun:
            begun.let_go()
            detail = f"It was begun {times} times, and never came any further."
            error = ConverseError(detail=detail, stage=Stage.EXECUTE)
            return await self._settle(run_id, log, error)
        work = asyncio.create_task(self.performer.perform(begun))
        self._works[run_id] = work
        try:
            with self._hearing(run_id):
                await asyncio.wait([work])
        except asyncio.CancelledError:
            work.cancel()
            await finish(asyncio.wait([work]))
            raise
        finally:
            del self._works[run_id]
            begun.let_go()  # it may have failed before it was opened
        return 0.0 if work.cancelled() else await self._settle(run_id, log, work.exception())

    def _hearing(self, run_id: str) -> AbstractContextManager[None]:
        """Looks at a run again to which something is said while it works, when it rests.

        Another process may have said it, which wakes nobody here and has no use for it there; and
        the run may have heard it too late to do what it asks for.
        """
        place, said = find_place(produce_log(self.store, run_id)), self._said[run_id]
        if place is None:  # nobody tells
            said.set()
            return nullcontext()

        def hear(line: LogLine) -> None:
            if line.word in LETTER_WORDS:
                said.set()

        return hearing(place, hear)

    async def _settle(
        self, run_id: str, log: Sequence[LoggedEvent], error: BaseException | None
    ) -> float | None:
        """Sees to it that the log says what became of a run that raised."""
        if error is None:
            return None
        if isinstance(error, StoreError) and not isinstance(error, PASSING):
            return _wait_for_store(run_id, error)  # another has it, or the disk is full
        if not isinstance(error, ConverseError):
            _LOGGER.error("run %s failed", run_id, exc_info=error)
            error = ConverseError(detail=repr(error), stage=Stage.EXECUTE)
        choose = partial(self._choose_outcome, run_id, error)
        outcome = await finish(asyncio.to_thread(write_outcome, self.store, run_id, log, choose))
        return outcome.seconds if isinstance(outcome, RunRetriedEvent) else 0.0

    def _choose_outcome(
        self, run_id: str, error: ConverseError, log: Sequence[LoggedEvent]
    ) -> LogEvent:
        settings, attempt = self.settings, count_retried(log) + 1
        if isinstance(error, PASSING) and attempt <= settings.attempts:
            first, longest = settings.retry_seconds, settings.longest_retry_seconds
            seconds = double(first, attempt - 1, longest)
            return RunRetriedEvent(detail=str(error), attempt=attempt, seconds=seconds)
        is_flow = any(isinstance(each.event, FlowStartedEvent) for each in log)
        end = FlowEndedEvent if is_flow else RunEndedEvent
        return end(run_id=run_id, reason="failed", detail=str(error), error=error)


def _wait_for_store(run_id: str, error: StoreError) -> float:
    """Tells that a run waits for the store, and returns for how long."""
    _LOGGER.warning("run %s waits: %s", run_id, error)
    return _PAUSE_SECONDS


def is_free(store: ConversationStore, run_id: str) -> bool:
    """Tells whether nobody has the log of a run.

    Raises:
        CorruptionError: Nobody can go on with it.
    """
    log = produce_log(store, run_id)
    if not claim_at_once(log):
        return False
    log.close()
    return True
