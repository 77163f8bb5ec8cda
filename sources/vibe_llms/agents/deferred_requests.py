"""Deferred requests: requests of runs that batches of their vendors answer.

A run hands its request over and suspends, as it does for an approval. Submissions are recorded in
a file first (:mod:`vibe_llms.batches.vendor_chunks`), so that the next process on this machine
continues with them; requests that were not submitted are gathered again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import platform
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from importlib import import_module
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from vibe_llms.application import Application
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.engine import GenerationAnsweredEvent, GenerationDeferredEvent
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    RequestError,
    Stage,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.foundation.files import resolve_links
from vibe_llms.foundation.portal import finish
from vibe_llms.logs import locks
from vibe_llms.runs.delivering import deliver
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.summaries import RunState

if TYPE_CHECKING:
    from vibe_llms.agents.deferred_batches import DeferredBatches
    from vibe_llms.batches.vendor_chunks import ChunkLog

_LOGGER = logging.getLogger(__name__)

VENDOR: Final = "vendor"
"""Channel of a run whose requests are deferred to batches of the vendor."""

_FOLDER: Final = "deferred"
_NAME_DIGITS: Final = 16
_WAITING: Final[tuple[RunState, ...]] = ("waiting",)


class DeferredRequests:
    """Deferred requests of the runs of this process.

    One process of a machine has them at a time, guarded by a lock file.

    Args:
        store: The store of the runs.
        application: Provides the models.
    """

    def __init__(self, store: ConversationStore, application: Application) -> None:
        self.store = store
        self._application = application
        self._folder: Path = application.configuration.data_directory / _FOLDER
        origin = f"{platform.node()}:{resolve_links(self._folder)}"
        self.name = hashlib.sha256(origin.encode()).hexdigest()[:_NAME_DIGITS]
        self._wake: Callable[[str], None] | None = None
        self._opening = asyncio.Lock()
        self._lock: FileIO | None = None
        self._logs: dict[str, ChunkLog] = {}
        self._unreadable: set[str] = set()  # models whose file of submissions is unreadable
        self._models: dict[str, DeferredBatches] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, wake: Callable[[str], None]) -> None:
        """Continue with requests at vendors; do nothing if there never were any.

        Args:
            wake: Wakes a run that has an answer.
        """
        self._wake = wake
        if not self._folder.exists():
            return
        try:
            await finish(asyncio.to_thread(self._open))
        except StoreError as error:  # another process has the lock
            _LOGGER.warning("another process handles requests at vendors: %s", error)
            return
        for address, log in self._logs.items():
            if log.open_chunks:
                with suppress(ConverseError):  # already logged
                    await self.access(address)
        try:
            run_ids = await finish(asyncio.to_thread(self._return_unsent))
        except StoreError as error:
            _LOGGER.warning("unsubmitted requests cannot be returned to their runs: %s", error)
            return
        for run_id in run_ids:
            wake(run_id)

    async def close(self) -> None:
        """Release everything for the next process. May be called again."""
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await finish(asyncio.gather(*tasks, return_exceptions=True))
        for log in self._logs.values():
            log.close()
        self._logs, self._models = {}, {}
        await self._application.release(self)
        lock, self._lock = self._lock, None
        if lock is not None:
            locks.release(lock)

    async def access(self, address: str) -> DeferredBatches:
        """Return the batches of a model.

        Raises:
            ConfigurationError: This process is a worker, which defers no requests.
            CapabilityError: The model's vendor has no batches.
        """
        if self._wake is None:
            raise refuse_workers()
        address = str(self._application.resolve_address(address))
        async with self._opening:
            # Most runs defer nothing, so the module is imported when it is first needed.
            await asyncio.to_thread(import_module, "vibe_llms.agents.deferred_batches")
            return self._models.get(address) or await self._open_model(address)

    async def _open_model(self, address: str) -> DeferredBatches:
        from vibe_llms.agents.deferred_batches import DeferredBatches
        from vibe_llms.batches.vendor_backend import find_batches
        from vibe_llms.batches.vendor_chunks import ChunkLog

        try:
            batches = find_batches(await self._application.access_model(address, holder=self))
            if self._lock is None:
                await finish(asyncio.to_thread(self._open))
            log = self._logs.get(address)
            if log is None:  # an unreadable file may have been repaired since
                log = self._logs[address] = ChunkLog(self._folder / quote(address, ""), address)
                self._unreadable.discard(address)
        except ConverseError as error:
            _LOGGER.warning("cannot submit requests to %s: %s", address, error)
            raise
        model_batches = self._models[address] = DeferredBatches(self, batches, log)
        model_batches.resume()
        return model_batches

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task until :meth:`close`."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOGGER.error("deferred requests failed: %s", error, exc_info=error)

    async def deliver(self, name: str, message: GenerationAnsweredEvent) -> None:
        """Put the answer to a request into its run's inbox and wake the run.

        Args:
            name: The request: the run's id and the place in its conversation.

        Raises:
            StoreError: The answer could not be written.
        """
        run_id = name.partition("/")[0]
        try:
            await finish(asyncio.to_thread(self._put_into_inbox, run_id, message))
        except UnknownConversationError:  # deleted in the meantime
            return
        if self._wake is not None:
            self._wake(run_id)

    # --- in a thread -----------------------------------------------------------------------------

    def _open(self) -> None:
        """Lock the folder and read the submissions. Raises StoreError."""
        from vibe_llms.batches.vendor_chunks import SUFFIX, ChunkLog

        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / "lock"
        path.touch(0o600)
        self._lock = locks.acquire(str(path), wait_seconds=0)
        for found in sorted(self._folder.glob(f"*{SUFFIX}")):
            output = found.with_name(found.name.removesuffix(SUFFIX))
            address = unquote(output.name)
            try:
                self._logs[address] = ChunkLog(output, address)
            except (RequestError, StoreError) as error:  # continue with the others
                self._unreadable.add(address)
                _LOGGER.warning("requests at the vendor of %s are skipped: %s", address, error)

    def _put_into_inbox(self, run_id: str, message: GenerationAnsweredEvent) -> None:
        self.store.open_inbox(run_id).put(message)
        deliver(self.store, run_id)

    def _return_unsent(self) -> list[str]:
        """Have runs defer again those requests that were gathered but never submitted."""
        from vibe_llms.agents.deferred_batches import UNSENT, compose_answer

        submitted = {
            str(item.id)
            for log in self._logs.values()
            for chunk in log.open_chunks
            for item in chunk.items
        }
        index, run_ids = RunIndex(self.store), list[str]()
        index.refresh()
        for summary in index.survey(states=_WAITING):
            if summary.spec.get("channel") != VENDOR:
                continue
            try:
                key = self._find_deferred(summary.id)
                if key and f"{summary.id}/{key}" not in submitted:
                    self._put_into_inbox(summary.id, compose_answer(key, UNSENT))
                    run_ids.append(summary.id)
            except ConverseError as error:  # such as a full inbox
                _LOGGER.warning("%s waits for an unsubmitted request: %s", summary.id, error)
        return run_ids

    def _find_deferred(self, run_id: str) -> str:
        """Return the key of the request that a run has deferred to this process; may be empty.

        A request that may be in an unreadable file is not returned, so that it is not sent twice.
        """
        deferred = find_deferred(self.store.open_log(run_id).read())
        if deferred is None or deferred.backend != self.name:
            return ""
        address = str(self._application.resolve_address(deferred.model)) if self._unreadable else ""
        return "" if address in self._unreadable else deferred.key


def refuse_workers() -> ConfigurationError:
    """Return the error for a deferred request on a runner with workers."""
    return ConfigurationError.at(
        "run.channel", "Only runs of a local: runner can use a vendor's batches."
    )


def find_deferred(log: Iterable[LoggedEvent]) -> GenerationDeferredEvent | None:
    """Return the deferred request of a run, by its log; ``None`` if it has none."""
    deferred: GenerationDeferredEvent | None = None
    for logged in log:
        match logged.event:
            case GenerationDeferredEvent() as event:
                deferred = event
            case GenerationAnsweredEvent() as event if deferred and event.key == deferred.key:
                deferred = None
    return deferred


def refuse_deferred_elsewhere(log: Iterable[LoggedEvent], own_name: str) -> None:
    """Refuse to continue a run whose request another process has deferred.

    It would be submitted, and billed, twice.

    Args:
        own_name: The name under which this process defers requests; empty for workers.

    Raises:
        RequestError: Another process has deferred a request of the run.
    """
    deferred = find_deferred(log)
    if deferred is not None and deferred.backend != own_name:
        raise RequestError(
            path="run",
            detail="Its request is in a batch of its vendor that another machine, or another data "
            f"directory, has submitted ({deferred.backend}): here it would be submitted, and "
            "billed, once more.",
            remedy="Resume the run on that machine with `vibe agents` or a local: runner; "
            "or stop the run and fork it.",
            stage=Stage.EXECUTE,
        )
