"""Runs performed by whichever worker takes them from a queue; see :class:`..runners.Runner`."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.agents.batch_workers import ChunkWorker
from vibe_llms.agents.durable.engine import (
    APPLICATION,
    VERSION,
    DurableDatabase,
    describe_place,
    open_engine,
    reaching,
)
from vibe_llms.agents.durable.heartbeats import BEAT_SECONDS, DEAD_SECONDS, Heartbeats
from vibe_llms.agents.durable.scheduling import WORKFLOW, Scheduler
from vibe_llms.agents.hosting import HostSettings, RunHost
from vibe_llms.agents.performing import OrderPerformer
from vibe_llms.agents.queues import BATCH_QUEUE, Queue
from vibe_llms.asynchrony import finish
from vibe_llms.batches.databases import check_database, open_database
from vibe_llms.batches.functions import Function
from vibe_llms.batches.making import WorkMaker, gather_functions
from vibe_llms.batches.rates import RowBudgets
from vibe_llms.exceptions import StoreError
from vibe_llms.messages.identities import produce_identity
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.opening import BegunRun
from vibe_llms.runs.surveying import OPEN

if TYPE_CHECKING:
    from dbos import DBOS

_LOGGER = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.2
_WORKING = threading.Lock()


class DurableRunner:
    """Asks for runs over a database and, where it has queues, performs them as a worker.

    A process may have many that ask, and one worker: DBOS is there once.

    Args:
        url: Of the database.
        performer: Performs one run.
        queues: From which it takes runs, and where it is named so, chunks of batches.
        functions: May be the work of a batch: they are found by their names.
        hosting: How often it looks through the store, how often what fails is tried, and how long
            runs may work on when it is closed.
        index: Knows where runs stand; by default one of its own.
        beat_seconds: How often a worker says that it lives; one that has not for three times as
            long counts as dead.
    """

    def __init__(
        self,
        url: str,
        performer: OrderPerformer,
        *,
        queues: Sequence[Queue] = (Queue(),),
        functions: Iterable[Function] = (),
        hosting: HostSettings | None = None,
        index: RunIndex | None = None,
        beat_seconds: float = BEAT_SECONDS,
    ) -> None:
        self.url = url
        self.queues = tuple(queues)
        self._run_queues = [each for each in queues if each.name != BATCH_QUEUE]
        self.worker = f"{socket.gethostname()}-{os.getpid()}-{produce_identity()[:8]}"
        self._host = RunHost(performer, hosting, index)
        self._batches = open_database(url)
        self._application = performer.application
        self._maker = WorkMaker(
            application=performer.application,
            store=performer.store,
            produce_tools=performer.produce_tools,
            functions=gather_functions(functions),
        )
        self._chunks: list[ChunkWorker] = []
        self._beat_seconds = beat_seconds
        self._dead_seconds = beat_seconds * DEAD_SECONDS / BEAT_SECONDS
        self._engine: DurableDatabase | None = None
        self._is_leaving = False
        self._is_working = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._waking: set[asyncio.Task[None]] = set()

    @property
    def index(self) -> RunIndex:
        """Knows where the runs stand."""
        return self._host.index

    @property
    def desk_name(self) -> str:
        """None: workers leave no requests to vendors' batches."""
        return ""

    @property
    def working(self) -> Sequence[str]:
        """The ids of the runs that this process sees to now."""
        return self._host.working

    async def start(self) -> None:
        """Connects; a worker begins to take runs. Who takes chunks alone needs no DBOS."""
        self._is_leaving = False
        if self.queues:
            await asyncio.to_thread(check_database, self._batches)
            # Before any model is asked: who asks has its limiter for good.
            self._application.share_budgets(RowBudgets(self._batches))
        if self._run_queues or not self.queues:
            await self._begin_scheduling()
        for each in self.queues:
            if each not in self._run_queues:
                self._begin_chunks(each)

    async def _begin_scheduling(self) -> None:
        engine = self._engine = await asyncio.to_thread(open_engine, self.url)
        self._scheduler = Scheduler(engine, self.index)
        self._heartbeats = Heartbeats(engine, self.worker, self._dead_seconds)
        try:
            if self._run_queues:
                await self._begin_work(engine)
        except BaseException:
            await asyncio.to_thread(engine.close)
            raise
        self._begin(self._look())

    def _begin_chunks(self, queue: Queue) -> None:
        worker = ChunkWorker(
            self._batches, self._maker, queue=queue, lease_seconds=self._dead_seconds
        )
        worker.start()
        self._chunks.append(worker)

    def _begin(self, work: Any) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def close(self) -> None:
        """Lets go of all runs, after a while in which they may come to rest."""
        self._is_leaving = True
        leaving = (each.close(self._host.settings.grace_seconds) for each in self._chunks)
        chunks = asyncio.gather(*leaving, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._host.settings.grace_seconds):
                for run_id in self.working:
                    await self._host.rest(run_id)
        await finish(chunks)
        await self._host.close()
        await finish(asyncio.gather(*self._waking, return_exceptions=True))
        for task in self._tasks:
            task.cancel()
        await finish(asyncio.gather(*self._tasks, return_exceptions=True))
        if self._is_working:
            await finish(asyncio.to_thread(self._end_work))
        await asyncio.to_thread(self._batches.close)
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)
            self._engine = None

    def wake(self, run_id: str) -> None:
        """Has a run seen to soon, by whichever worker."""
        if self._engine is None:  # whoever begins looks through the store
            return
        task = asyncio.create_task(self._enqueue(run_id))
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)

    @property
    def has_room(self) -> bool:
        """Never: it is for whichever worker comes to it."""
        return False

    def begin(self, begun: BegunRun) -> None:
        """Lets go of a run, for whichever worker."""
        begun.let_go()
        self.wake(begun.conversation.id)

    async def interrupt(self, run_id: str) -> None:
        """Breaks off a run that works in this process."""
        await self._host.interrupt(run_id)

    async def _enqueue(self, run_id: str) -> None:
        try:
            await asyncio.to_thread(self._scheduler.enqueue, run_id)
        except StoreError as error:  # whoever looks through the store next finds it
            _LOGGER.warning("run %s cannot be queued now: %s", run_id, error)

    async def _look(self) -> None:
        """Finds what nobody has queued, such as what was said by a process that has died since."""
        while True:
            try:
                found = await asyncio.to_thread(self._host.survey_open)
                if self._is_working:
                    await asyncio.to_thread(self._scheduler.enqueue_all, found)
                    self._host.begin_tidying()
            except StoreError as error:
                _LOGGER.warning("the store cannot be looked through: %s", error)
            await asyncio.sleep(self._host.settings.look_seconds)

    # --- as a worker -------------------------------------------------------------------------

    async def _begin_work(self, engine: DurableDatabase) -> None:
        if not _WORKING.acquire(blocking=False):
            detail = "This process is a worker already, and DBOS is there once in each."
            raise StoreError(path=describe_place(self.url), detail=detail)
        try:
            loop = asyncio.get_running_loop()
            await finish(asyncio.to_thread(self._launch, engine, loop))
        except BaseException:
            _WORKING.release()
            raise
        self._is_working = True
        self._begin(self._beat())

    def _launch(self, engine: DurableDatabase, loop: asyncio.AbstractEventLoop) -> None:
        from dbos import DBOS

        async def perform(run_id: str) -> str:
            work = asyncio.run_coroutine_threadsafe(self._perform(run_id), loop)
            return await asyncio.wrap_future(work)

        with reaching(engine.place):
            self._heartbeats.prepare()
            self._scheduler.register(self._run_queues)
            try:
                self._dbos = DBOS(
                    config={
                        "name": APPLICATION,
                        "application_version": VERSION,
                        "executor_id": self.worker,
                        "system_database_engine": engine.connections,
                        "dbos_system_schema": engine.schema or "dbos",
                        "serializer": engine.serializer,
                        "use_listen_notify": False,
                        "log_level": "ERROR",
                    }
                )
                DBOS.listen_queues([each.name for each in self._run_queues])
                # A run that kills its workers is counted in its own log, which says so, too.
                DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(perform)
                DBOS.launch()
            except BaseException:
                DBOS.destroy(destroy_registry=True)
                raise

    def _end_work(self) -> None:
        from dbos import DBOS

        try:
            _stop_queues(self._dbos)
            DBOS.destroy(destroy_registry=True)
            with suppress(StoreError), reaching(self.url):  # else it is found dead soon
                self._heartbeats.leave()
        finally:
            self._is_working = False
            _WORKING.release()

    async def _perform(self, run_id: str) -> str:
        """Performs a run until it rests; returns where it stands.

        Where another has its log just now, it may be for a moment, or that one performs it.
        """
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while True:
            if not self._is_leaving:
                self._host.wake(run_id)
                await self._host.rest(run_id)
            state = await asyncio.to_thread(self._read_state, run_id)
            if state not in OPEN:
                return state
            if self._is_leaving:  # it stays as it is, and is handed back
                await asyncio.Event().wait()
            if asyncio.get_running_loop().time() > deadline:
                return state
            await asyncio.sleep(_PAUSE_SECONDS)

    def _read_state(self, run_id: str) -> str:
        try:
            return self.index.read_summary(run_id).state
        except StoreError as error:
            return f"unknown: {error}"

    async def _beat(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._keep_order)
            except StoreError as error:
                _LOGGER.warning("the runner's database is out of reach: %s", error)
            await asyncio.sleep(self._beat_seconds)

    def _keep_order(self) -> None:
        with reaching(describe_place(self.url)):
            self._heartbeats.beat()
            self._heartbeats.bury()
            self._heartbeats.purge()


def _stop_queues(dbos: DBOS) -> None:
    """Has no more runs taken; DBOS itself stops its event loop first, where a run is lost then."""
    for event in dbos.background_thread_stop_events:
        event.set()
    for thread in threading.enumerate():
        if thread.name.startswith("queue-worker-"):
            thread.join(_PATIENCE_SECONDS)
