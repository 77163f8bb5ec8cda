"""Runner over a database: DBOS queues hand runs and chunks of batches to workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from vibe_llms.agents.durable.chunks import CHUNK_WORKFLOW, DurableChunkQueue
from vibe_llms.agents.durable.database import DurableDatabase, open_database
from vibe_llms.agents.durable.queue_worker import QueueWorker
from vibe_llms.agents.durable.scheduling import WORKFLOW, Scheduler
from vibe_llms.agents.executing import RunExecutor
from vibe_llms.agents.queues import BATCH_QUEUE, Queue
from vibe_llms.agents.workers import RunWorker, WorkerSettings
from vibe_llms.batches import databases
from vibe_llms.batches.executors import ChunkExecutor
from vibe_llms.batches.functions import Function
from vibe_llms.batches.rates import RowBudgets
from vibe_llms.batches.work_makers import WorkMaker, gather_functions
from vibe_llms.conversations.run_logs.claims import LEASE_SECONDS
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.portal import finish
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.opening import ClaimedRun
from vibe_llms.runs.surveying import OPEN

_LOGGER = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.2


class DurableRunner:
    """Enqueues runs in a database; with own queues, also executes runs as a worker.

    Args:
        url: URL of the database.
        executor: Executes one run.
        queues: The queues to take work from, runs and chunks of batches; none for a process that
            only enqueues.
        functions: Functions that batches may name as their work.
        hosting: How often the store is scanned, how often failed runs are retried, and the grace
            period of :meth:`close`.
        index: Index of the states of runs; by default a new one.
        lease_seconds: Time without a heartbeat after which other workers take over the work of
            this one.
    """

    def __init__(
        self,
        url: str,
        executor: RunExecutor,
        *,
        queues: Sequence[Queue] = (Queue(),),
        functions: Iterable[Function] = (),
        hosting: WorkerSettings | None = None,
        index: RunIndex | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self.url = url
        self.queues = tuple(queues)
        self._run_queues = [each for each in queues if each.name != BATCH_QUEUE]
        self._host = RunWorker(executor, hosting, index)
        self._host.on_continued = self.wake
        self._batches = databases.open_database(url)
        self._application = executor.application
        self._maker = WorkMaker(
            application=executor.application,
            store=executor.store,
            produce_tools=executor.produce_tools,
            functions=gather_functions(functions),
        )
        self._chunks: ChunkExecutor | None = None
        self._lease_seconds = lease_seconds
        self._database: DurableDatabase | None = None
        self._worker: QueueWorker | None = None
        self._is_leaving = False
        self._waking: set[asyncio.Task[None]] = set()

    @property
    def index(self) -> RunIndex:
        """Index of the states of runs."""
        return self._host.index

    @property
    def deferred_name(self) -> str:
        """Empty: workers do not defer requests."""
        return ""

    @property
    def working(self) -> Sequence[str]:
        """The ids of the runs that this process has taken on."""
        return self._host.working

    async def start(self) -> None:
        """Connect; a worker starts to take work."""
        self._is_leaving = False
        database = self._database = await asyncio.to_thread(open_database, self.url)
        self._scheduler = Scheduler(database, self.index)
        try:
            if self.queues:
                await self._start_worker(database)
        except BaseException:
            self._worker = self._chunks = self._database = None
            await asyncio.to_thread(database.close)
            raise
        if self._run_queues or not self.queues:
            self._host.start_scanning(self._dispatch, tidies=bool(self._run_queues))
        if self._chunks is not None and len(self._run_queues) < len(self.queues):
            self._chunks.start_scanning()

    async def _start_worker(self, database: DurableDatabase) -> None:
        await asyncio.to_thread(databases.check_database, self._batches)
        # Before the first request: a model keeps the limiter that it starts with.
        self._application.share_budgets(RowBudgets(self._batches))
        self._chunks = ChunkExecutor(
            self._batches, self._maker, DurableChunkQueue(self.url, database)
        )
        workflows: dict[str, Callable[..., Awaitable[str]]] = {
            WORKFLOW: self._execute,
            CHUNK_WORKFLOW: self._execute_chunk,
        }
        worker = QueueWorker(database, self.queues, workflows, lease_seconds=self._lease_seconds)
        self._worker = worker  # it may execute work before it has started
        await worker.start()

    async def close(self) -> None:
        """Release all runs so that other workers can continue them, after a grace period."""
        self._is_leaving = True
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.is_leaving = True
        chunks = asyncio.ensure_future(self._close_chunks())
        with suppress(TimeoutError):
            async with asyncio.timeout(self._host.settings.grace_seconds):
                for run_id in self.working:
                    await self._host.wait_until_idle(run_id)
        await finish(chunks)
        await self._host.close()
        await finish(asyncio.gather(*self._waking, return_exceptions=True))
        if worker is not None:
            await worker.close()
        await asyncio.to_thread(self._batches.close)
        database, self._database = self._database, None
        if database is not None:
            await asyncio.to_thread(database.close)

    async def _close_chunks(self) -> None:
        executor, self._chunks = self._chunks, None
        if executor is not None:
            await executor.close(self._host.settings.grace_seconds)

    def wake(self, run_id: str) -> None:
        """Enqueue a run in the background."""
        if self._database is None:  # the first worker to start scans the store
            return
        task = asyncio.create_task(self._enqueue(run_id))
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)

    @property
    def has_room(self) -> bool:
        """Always false: any worker may take the run."""
        return False

    def begin(self, claimed: ClaimedRun) -> None:
        """Release the claim of a new run and enqueue it."""
        claimed.release()
        self.wake(claimed.conversation.id)

    async def interrupt(self, run_id: str) -> None:
        """Cancel a run's execution in this process."""
        await self._host.interrupt(run_id)

    async def _enqueue(self, run_id: str) -> None:
        try:
            await asyncio.to_thread(self._scheduler.enqueue, run_id)
        except StoreError as error:  # the next scan finds the run
            _LOGGER.warning("cannot queue run %s now: %s", run_id, error)

    async def _dispatch(self, run_ids: Sequence[str]) -> None:
        """Enqueue the runs that a scan has found, if this process is a worker."""
        if self._worker is not None:
            await asyncio.to_thread(self._scheduler.enqueue_all, run_ids)

    async def _execute(self, run_id: str) -> str:
        """Execute a run until it rests; return its state.

        If another process has claimed the log, retry for a moment: it may only deliver messages.
        """
        worker = self._worker
        assert worker is not None
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while True:
            if not self._is_leaving:
                self._host.wake(run_id)
                if not await self._host.wait_until_idle(run_id):
                    return "unknown"  # the next scan enqueues it again, unless damaged
            state = await asyncio.to_thread(self._read_state, run_id)
            if state not in OPEN:
                return state
            if self._is_leaving:
                return await worker.wait_for_close()
            if asyncio.get_running_loop().time() > deadline:
                return state
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _execute_chunk(self, batch: str, chunk: int) -> str:
        """Execute a chunk of a batch; return why it needs no more work."""
        worker, chunks = self._worker, self._chunks
        assert worker is not None
        assert chunks is not None
        return await chunks.execute(batch, chunk) or await worker.wait_for_close()

    def _read_state(self, run_id: str) -> str:
        try:
            return self.index.read_summary(run_id).state
        except StoreError as error:
            return f"unknown: {error}"
