"""Queue worker: takes work from DBOS queues and executes it in this process."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from vibe_llms.agents.durable.database import (
    APPLICATION,
    VERSION,
    DurableDatabase,
    translating_errors,
)
from vibe_llms.agents.durable.heartbeats import Heartbeats
from vibe_llms.agents.queues import Queue
from vibe_llms.conversations.run_logs.claims import LEASE_SECONDS
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.portal import finish
from vibe_llms.messages.identities import produce_identity

_LOGGER = logging.getLogger(__name__)

_BEATS: Final = 3
"""Heartbeats per lease."""
_POLL_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 1
"""Time for DBOS to stop taking work before it closes its event loop."""
_KEPT_SECONDS: Final = 3_600.0
"""Age at which finished work is deleted from the tables; the logs of its runs stay."""
_PURGED: Final = 1_000
"""Maximum number of workflows deleted at once."""

_ENDED: Final = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
_IN_USE = threading.Lock()


class QueueWorker:
    """Worker of DBOS queues. DBOS is a singleton, so a process has one worker at most.

    Args:
        database: Database with the queues.
        queues: The queues to take work from.
        workflows: Functions that execute work, by the names of their workflows. They are called
            with the arguments of the work in the event loop that started the worker.
        lease_seconds: Time without a heartbeat after which other workers take over.
    """

    def __init__(
        self,
        database: DurableDatabase,
        queues: Sequence[Queue],
        workflows: Mapping[str, Callable[..., Awaitable[str]]],
        *,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._database = database
        self._queues = queues
        self._workflows = workflows
        self._pause_seconds = lease_seconds / _BEATS
        name = f"{socket.gethostname()}-{os.getpid()}-{produce_identity()[:8]}"
        self._heartbeats = Heartbeats(database, name, lease_seconds)
        self._name = name
        self._beating: asyncio.Task[None] | None = None
        self.is_leaving = False

    async def start(self) -> None:
        """Register the queues and take work.

        Raises:
            StoreError: The database is unreachable, or this process already has a worker.
        """
        if not _IN_USE.acquire(blocking=False):
            detail = "This process already has a worker, and DBOS allows one per process."
            raise StoreError(path=self._database.location, detail=detail)
        try:
            loop = asyncio.get_running_loop()
            await finish(asyncio.to_thread(self._launch, loop))
        except BaseException:
            _IN_USE.release()
            raise
        self._beating = asyncio.create_task(self._beat())

    async def close(self) -> None:
        """Stop; put unfinished work back into its queues. Does nothing before the start."""
        self.is_leaving = True
        beating, self._beating = self._beating, None
        if beating is not None:
            beating.cancel()
            await finish(asyncio.gather(beating, return_exceptions=True))
            await finish(asyncio.to_thread(self._shut_down))

    async def wait_for_close(self) -> str:
        """Wait until :meth:`close` puts the caller's work back into its queue."""
        await asyncio.Event().wait()
        raise AssertionError

    def _launch(self, loop: asyncio.AbstractEventLoop) -> None:
        from dbos import DBOS

        database = self._database
        with translating_errors(database.location):
            self._heartbeats.prepare()
            for each in self._queues:
                database.client.register_queue(
                    each.name,
                    worker_concurrency=each.each,
                    global_concurrency=each.total,
                    polling_interval_sec=_POLL_SECONDS,
                )
            try:
                DBOS(
                    config={
                        "name": APPLICATION,
                        "application_version": VERSION,
                        "executor_id": self._name,
                        "system_database_engine": database.connections,
                        "dbos_system_schema": database.schema or "dbos",
                        "serializer": database.serializer,
                        "use_listen_notify": False,
                        "log_level": "ERROR",
                    }
                )
                DBOS.listen_queues([each.name for each in self._queues])
                for name, work in self._workflows.items():
                    # Runs and chunks count their attempts themselves.
                    register = DBOS.workflow(name=name, max_recovery_attempts=None)
                    register(self._wrap(work, loop))
                DBOS.launch()
            except BaseException:
                DBOS.destroy(destroy_registry=True)
                raise

    def _wrap(
        self, work: Callable[..., Awaitable[str]], loop: asyncio.AbstractEventLoop
    ) -> Callable[..., Awaitable[str]]:
        """Return a workflow that executes work in another event loop."""

        async def start(*arguments: Any) -> str:
            return await (self.wait_for_close() if self.is_leaving else work(*arguments))

        async def execute(*arguments: Any) -> str:
            future = asyncio.run_coroutine_threadsafe(start(*arguments), loop)
            return await asyncio.wrap_future(future)

        return execute

    def _shut_down(self) -> None:
        from dbos import DBOS

        try:
            DBOS.destroy(destroy_registry=True, workflow_completion_timeout_sec=_STOP_SECONDS)
            # If the database is unreachable, the heartbeat expires.
            with suppress(StoreError), translating_errors(self._database.location):
                self._heartbeats.leave()
        finally:
            _IN_USE.release()

    async def _beat(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._keep_alive)
            except StoreError as error:
                _LOGGER.warning("the runner's database is unreachable: %s", error)
            await asyncio.sleep(self._pause_seconds)

    def _keep_alive(self) -> None:
        with translating_errors(self._database.location):
            self._heartbeats.beat()
            self._heartbeats.recover()
            self._purge()

    def _purge(self) -> None:
        """Delete workflows that ended long ago from the tables of DBOS."""
        before = datetime.now(UTC) - timedelta(seconds=_KEPT_SECONDS)
        client = self._database.client
        ended = client.list_workflows(
            status=_ENDED,
            completed_before=before.isoformat(),
            limit=_PURGED,
            load_input=False,
            load_output=False,
        )
        if ended:
            client.delete_workflows([each.workflow_id for each in ended])
