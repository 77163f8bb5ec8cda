"""Requests of runs that vendors' batches answer: gathered, submitted, and brought back as letters.

A run hands its request over and rests, as one that waits for an approval does. What was submitted
is written down before (:mod:`vibe_llms.batches.vendor_chunks`), so that whoever
starts next on this machine goes on with it; what was not submitted yet is asked for again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import platform
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from vibe_llms.agents.deferred_batches import UNSENT, DeferredBatches, answer
from vibe_llms.application import Application
from vibe_llms.batches.vendor_backend import find_batches
from vibe_llms.batches.vendor_chunks import SUFFIX, ChunkLog
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.engine import GenerationAnsweredEvent, GenerationParkedEvent
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    RequestError,
    Stage,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.foundation.portal import finish
from vibe_llms.logs import locks
from vibe_llms.runs.delivering import deliver
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.summaries import RunState

_LOGGER = logging.getLogger(__name__)

VENDOR: Final = "vendor"
"""The channel of an order whose requests are answered by a vendor's batches."""

_FOLDER: Final = "parked"
_NAME_DIGITS: Final = 16
_WAITING: Final[tuple[RunState, ...]] = ("waiting",)


class DeferredRequests:
    """Has the requests of runs answered by their vendors' batches.

    One process of a machine does so at a time, for the runs that it performs itself.

    Args:
        store: Where the runs are.
        application: Where their models are.
    """

    def __init__(self, store: ConversationStore, application: Application) -> None:
        self.store = store
        self._application = application
        self._folder: Path = application.configuration.data_directory / _FOLDER
        said = f"{platform.node()}:{self._folder.resolve()}"
        self.name = hashlib.sha256(said.encode()).hexdigest()[:_NAME_DIGITS]
        self._wake: Callable[[str], None] | None = None
        self._door = asyncio.Lock()
        self._lock: FileIO | None = None
        self._logs: dict[str, ChunkLog] = {}
        self._unread: set[str] = set()  # to which models requests are, of which nobody knows whose
        self._models: dict[str, DeferredBatches] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, wake: Callable[[str], None]) -> None:
        """Goes on with what is at vendors; before anything was parked it does nothing.

        Args:
            wake: Has a run seen to, of which something was said.
        """
        self._wake = wake
        if not self._folder.exists():
            return
        try:
            await finish(asyncio.to_thread(self._open))
        except StoreError as error:  # another process has them
            _LOGGER.warning("requests at vendors are not seen to here: %s", error)
            return
        for address, log in self._logs.items():
            if log.open_chunks:
                with suppress(ConverseError):  # it says so itself
                    await self.access(address)
        try:
            told = await finish(asyncio.to_thread(self._return_unsent))
        except StoreError as error:
            _LOGGER.warning("requests that were not submitted are not asked for again: %s", error)
            return
        for run_id in told:
            wake(run_id)

    async def close(self) -> None:
        """Lets go of all; whoever starts next goes on with it. May be called again."""
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
        """Returns what takes requests to a model.

        Raises:
            ConfigurationError: Nobody here submits requests of runs.
            CapabilityError: The model's vendor has no batches.
        """
        if self._wake is None:
            raise refuse_workers()
        address = str(self._application.resolve_address(address))
        async with self._door:
            return self._models.get(address) or await self._open_lane(address)

    async def _open_lane(self, address: str) -> DeferredBatches:
        try:
            batches = find_batches(await self._application.access_model(address, holder=self))
            if self._lock is None:
                await finish(asyncio.to_thread(self._open))
            log = self._logs.get(address)
            if log is None:  # also where it did not read: it may have been mended since
                log = self._logs[address] = ChunkLog(self._folder / quote(address, ""), address)
                self._unread.discard(address)
        except ConverseError as error:
            _LOGGER.warning("requests to %s cannot be submitted: %s", address, error)
            raise
        lane = self._models[address] = DeferredBatches(self, batches, log)
        lane.take_up()
        return lane

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Lets something be done until the desk is closed."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOGGER.error("requests of runs are left alone: %s", error, exc_info=error)

    async def tell(self, name: str, answered: GenerationAnsweredEvent) -> None:
        """Puts what came of a request into its run's inbox, and has the run go on.

        Args:
            name: Of the request: the run's id, and the place in its conversation.

        Raises:
            StoreError: It could not be written.
        """
        run_id = name.partition("/")[0]
        try:
            await finish(asyncio.to_thread(self._post, run_id, answered))
        except UnknownConversationError:  # deleted meanwhile
            return
        if self._wake is not None:
            self._wake(run_id)

    # --- in a thread -----------------------------------------------------------------------------

    def _open(self) -> None:
        """Takes the folder, with what was submitted of it. Raises StoreError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / "lock"
        path.touch(0o600)
        self._lock = locks.acquire(str(path), wait_seconds=0)
        for found in sorted(self._folder.glob(f"*{SUFFIX}")):
            output = found.with_name(found.name.removesuffix(SUFFIX))
            address = unquote(output.name)
            try:
                self._logs[address] = ChunkLog(output, address)
            except (RequestError, StoreError) as error:  # the others can be gone on with
                self._unread.add(address)
                _LOGGER.warning("what is at the vendor of %s is not seen to: %s", address, error)

    def _post(self, run_id: str, answered: GenerationAnsweredEvent) -> None:
        self.store.open_inbox(run_id).put(answered)
        deliver(self.store, run_id)

    def _return_unsent(self) -> list[str]:
        """Tells runs whose requests were gathered, and never submitted, to park them again."""
        held = {
            str(item.id)
            for log in self._logs.values()
            for chunk in log.open_chunks
            for item in chunk.items
        }
        index, told = RunIndex(self.store), list[str]()
        index.refresh()
        for summary in index.survey(states=_WAITING):
            if summary.order.get("channel") != VENDOR:
                continue
            try:
                key = self._find_deferred(summary.id)
                if key and f"{summary.id}/{key}" not in held:
                    self._post(summary.id, answer(key, UNSENT))
                    told.append(summary.id)
            except ConverseError as error:  # as of one whose inbox is full
                _LOGGER.warning("%s goes on waiting for what nobody has: %s", summary.id, error)
        return told

    def _find_deferred(self, run_id: str) -> str:
        """Returns for what an answer is waited for, from this desk; empty where for nothing.

        What may be in a file that does not read is waited for, too: nobody asks for it twice.
        """
        parked = find_deferred(self.store.open_log(run_id).read())
        if parked is None or parked.desk != self.name:
            return ""
        address = str(self._application.resolve_address(parked.model)) if self._unread else ""
        return "" if address in self._unread else parked.key


def refuse_workers() -> ConfigurationError:
    """Says that workers leave no requests to vendors' batches."""
    return ConfigurationError.at(
        "order.channel", "Only runs that a local: runner performs go to a vendor's batches."
    )


def find_deferred(log: Iterable[LoggedEvent]) -> GenerationParkedEvent | None:
    """Returns which request of a run is at a vendor, by its log; ``None`` where none is."""
    parked: GenerationParkedEvent | None = None
    for logged in log:
        match logged.event:
            case GenerationParkedEvent() as event:
                parked = event
            case GenerationAnsweredEvent() as event if parked and event.key == parked.key:
                parked = None
    return parked


def refuse_foreign(log: Iterable[LoggedEvent], desk: str) -> None:
    """Refuses to go on with a run whose request is at a vendor by another's hand.

    It would be submitted once more, and billed twice.

    Args:
        desk: The name of who would go on; empty for workers, who submit none.

    Raises:
        RequestError: There is such a request.
    """
    parked = find_deferred(log)
    if parked is not None and parked.desk != desk:
        raise RequestError(
            path="run",
            detail="Its request is in a batch of its vendor that another machine, or another data "
            f"directory, has submitted ({parked.desk}): here it would be submitted, and billed, "
            "once more.",
            remedy="Let that machine go on with it, by `vibe agents` or a local: runner there; or "
            "stop the run, and fork it.",
            stage=Stage.EXECUTE,
        )
