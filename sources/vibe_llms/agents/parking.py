"""Requests of runs that vendors' batches answer: gathered, submitted, and brought back as letters.

A run hands its request over and rests, as one that waits for an approval does. What was submitted
is written down before (:mod:`vibe_llms.instruments.channels.batches.chunks`), so that whoever
starts next on this machine goes on with it; what was not submitted yet is asked for again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import platform
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from vibe_llms.application import Application
from vibe_llms.asynchrony import finish
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.engine import GenerationAnsweredEvent, GenerationParkedEvent
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    ProviderError,
    ProviderFault,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.instruments.channels.batches.chunks import (
    SUFFIX,
    Chunk,
    ChunkLog,
    End,
    name_item,
)
from vibe_llms.instruments.channels.batches.runs import Due
from vibe_llms.instruments.channels.batches.submitting import (
    FIRST_PAUSE_SECONDS,
    ChunkNews,
    Submitter,
    grow,
)
from vibe_llms.instruments.channels.batches.vendor_runs import find_batches
from vibe_llms.logs import locks
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.batches import BatchResult, BatchState, Fate
from vibe_llms.runs.delivering import deliver
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.places import produce_inbox, produce_log
from vibe_llms.runs.summaries import RunState

if TYPE_CHECKING:
    from vibe_llms.providers.batching import ModelBatches

_LOGGER = logging.getLogger(__name__)

VENDOR: Final = "vendor"
"""The channel of an order whose requests are answered by a vendor's batches."""

GATHER_SECONDS: Final = 60.0
"""How long the first request waits for others that go with it: a batch takes minutes or hours."""

_FOLDER: Final = "parked"
_LOST: Final = "lost"
_UNSENT: Final = "unsent"
_NAME_DIGITS: Final = 16
_WAITING: Final[tuple[RunState, ...]] = ("waiting",)


class ParkingDesk:
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
        self._lock: int | None = None
        self._logs: dict[str, ChunkLog] = {}
        self._lanes: dict[str, Lane] = {}
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
        for run_id in await finish(asyncio.to_thread(self._return_unsent)):
            wake(run_id)

    async def close(self) -> None:
        """Lets go of all; whoever starts next goes on with it. May be called again."""
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await finish(asyncio.gather(*tasks, return_exceptions=True))
        for log in self._logs.values():
            log.close()
        self._logs, self._lanes = {}, {}
        await self._application.release(self)
        lock, self._lock = self._lock, None
        if lock is not None:
            locks.release(lock)

    async def access(self, address: str) -> Lane:
        """Returns what takes requests to a model.

        Raises:
            ConfigurationError: Nobody here submits requests of runs.
            CapabilityError: The model's vendor has no batches.
        """
        if self._wake is None:
            raise ConfigurationError.at(
                "order.channel", "Only runs that a local: runner performs go to a vendor's batches."
            )
        address = str(self._application.resolve_address(address))
        async with self._door:
            return self._lanes.get(address) or await self._open_lane(address)

    async def _open_lane(self, address: str) -> Lane:
        try:
            batches = find_batches(await self._application.access_model(address, holder=self))
            if self._lock is None:
                await finish(asyncio.to_thread(self._open))
            log = self._logs.get(address)
            if log is None:
                log = self._logs[address] = ChunkLog(self._folder / quote(address, ""), address)
        except ConverseError as error:
            _LOGGER.warning("requests to %s cannot be submitted: %s", address, error)
            raise
        lane = self._lanes[address] = Lane(self, batches, log)
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
            self._logs[address] = ChunkLog(output, address)

    def _post(self, run_id: str, answered: GenerationAnsweredEvent) -> None:
        produce_inbox(self.store, run_id).put(answered)
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
            with suppress(StoreError):
                key = self._find_parked(summary.id)
                if key and f"{summary.id}/{key}" not in held:
                    letter = produce_identity()
                    unsent = GenerationAnsweredEvent(key=key, fate=_UNSENT, letter=letter)
                    self._post(summary.id, unsent)
                    told.append(summary.id)
        return told

    def _find_parked(self, run_id: str) -> str:
        """Returns for what an answer is waited for, from this desk; empty where for nothing."""
        key = ""
        for logged in produce_log(self.store, run_id).read():
            match logged.event:
                case GenerationParkedEvent() as event:
                    key = event.key if event.desk == self.name else ""
                case GenerationAnsweredEvent() as event if event.key == key:
                    key = ""
        return key


class Lane:
    """Takes the requests to one model; see :class:`vibe_llms.engine.parking.Parking`."""

    tier = "batch"

    def __init__(self, desk: ParkingDesk, batches: ModelBatches, log: ChunkLog) -> None:
        self._desk = desk
        self._batches = batches
        self._log = log
        self._submitter = Submitter(_pass, batches, log, self._hear)
        self._gathered: dict[str, Request] = {}
        self._leaving: dict[str, Request] = {}
        self._submitting = asyncio.Lock()
        self._is_watching = False

    @property
    def name(self) -> str:
        """By which the log says who has a request."""
        return self._desk.name

    def take_up(self) -> None:
        """Goes on with what was submitted before."""
        if self._log.open_chunks:
            self._desk.spawn(self._take_up())

    def put(self, conversation_id: str, request: Request) -> None:
        """Takes a request, unless it is here already."""
        name = f"{conversation_id}/{request.canisters[-1].id}"
        here = (self._gathered, self._leaving, self._survey_held())
        if any(name in names for names in here):
            return
        self._gathered[name] = request
        if len(self._gathered) == 1:
            self._desk.spawn(self._submit())

    async def read(self, said: GenerationAnsweredEvent, request: Request) -> Response:
        """Reads an answer. Raises ConverseError where there is none."""
        if said.fate == _LOST:
            raise ProviderError(
                fault=ProviderFault.NOT_FOUND,
                detail="the vendor has its batch no more; its answer may have been billed.",
                remedy="Let the run go on, and it is asked again.",
            )
        body = said.body.encode()
        result = BatchResult(id=said.letter, fate=Fate(said.fate), body=body, status=said.status)
        # What the translation lost is found out again: it is pure.
        losses = self._batches.translate(said.letter, request).losses
        return await self._batches.read_response(result, request, losses)

    def _survey_held(self) -> set[str]:
        return {str(item.id) for chunk in self._log.open_chunks for item in chunk.items}

    async def _take_up(self) -> None:
        unheard = [chunk for chunk in self._log.open_chunks if not chunk.vendor]
        async with self._submitting:
            await self._submitter.take_up()
        for chunk in unheard:
            if chunk.end == End.ABSENT:  # asked again: what the vendor has not got was not billed
                for item in chunk.items:
                    await self._return(str(item.id))
        self._watch_soon()

    async def _return(self, name: str) -> None:
        unsent = GenerationAnsweredEvent(
            key=name.rpartition("/")[2], fate=_UNSENT, letter=produce_identity()
        )
        await self._desk.tell(name, unsent)

    async def _submit(self) -> None:
        """Submits what was gathered, after others had time to come."""
        await self._batches.clock.sleep(GATHER_SECONDS)
        async with self._submitting:
            refused = await self._submit_gathered()
        for name, reason in refused.items():
            body = json.dumps({"error": {"message": str(reason)}})
            failed = GenerationAnsweredEvent(
                key=name.rpartition("/")[2], fate=Fate.FAILED, body=body, letter=produce_identity()
            )
            await self._desk.tell(name, failed)
        self._watch_soon()

    async def _submit_gathered(self) -> dict[str, ConverseError]:
        """Returns what was not submitted, and why not."""
        gathered, self._gathered = self._gathered, {}
        self._leaving = gathered
        refused: dict[str, ConverseError] = {}
        try:
            for name, request in gathered.items():
                try:
                    translation = await self._submitter.translate(request)
                except ConverseError as error:
                    refused[name] = error
                else:
                    await self._submitter.add(Due(0, name, request), translation)
            await self._submitter.flush()
        except ConverseError as error:
            held = self._survey_held()
            refused |= {name: error for name in gathered if name not in held}
        finally:
            self._leaving = {}
        return refused

    # --- what is at the vendor -----------------------------------------------------------------

    def _watch_soon(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            self._desk.spawn(self._watch())

    async def _watch(self) -> None:
        """Looks at all that was submitted, until nothing is left of it."""
        pause = FIRST_PAUSE_SECONDS
        while waiting := [each for each in self._log.open_chunks if each.vendor]:
            for chunk in waiting:
                try:
                    await self._look(chunk)
                except ConverseError as error:  # the next look may find all as it should be
                    _LOGGER.warning("the batch %s cannot be read yet: %s", chunk.vendor, error)
            if any(not chunk.end for chunk in waiting):
                await self._batches.clock.sleep(pause)
                pause = grow(pause)
        self._is_watching = False
        if not self._submitting.locked():  # an intent may be on its way into the file
            self._log.forget()

    async def _look(self, chunk: Chunk) -> None:
        try:
            state = await self._batches.poll(chunk.vendor)
        except ProviderError as error:
            if error.fault is not ProviderFault.NOT_FOUND:
                raise
            await self._end(chunk, set(), _LOST, "", End.LOST)
            return
        if state.has_ended:
            told = await self._read(chunk, state)
            failure = json.dumps({"error": {"message": state.failure}}) if state.failure else ""
            fate = Fate.FAILED if failure else Fate.CANCELLED
            await self._end(chunk, told, fate, failure, End.READ)

    async def _read(self, chunk: Chunk, state: BatchState) -> set[int]:
        """Tells each run its answer; returns the places of those that were told."""
        told: set[int] = set()
        async for result in self._batches.read(state):
            place = chunk.find_place(result.id)
            if place is not None:
                body = result.body.decode("utf-8", "replace")
                await self._tell(chunk, place, result.fate, body, result.status)
                told.add(place)
        return told

    async def _end(self, chunk: Chunk, told: set[int], fate: str, body: str, end: End) -> None:
        for place in range(len(chunk.items)):
            if place not in told:
                await self._tell(chunk, place, fate, body, None)
        await self._log.end(chunk, end)

    async def _tell(
        self, chunk: Chunk, place: int, fate: str, body: str, status: int | None
    ) -> None:
        name = str(chunk.items[place].id)
        answered = GenerationAnsweredEvent(
            key=name.rpartition("/")[2],
            fate=str(fate),
            body=body,
            status=status,
            seconds=max(time.time() - chunk.at, 0.0),
            letter=name_item(chunk.chunk, place),  # so that whoever reads anew tells nothing twice
        )
        await self._desk.tell(name, answered)

    def _hear(self, news: ChunkNews) -> None:
        if news.error is not None:
            _LOGGER.warning(
                "%d requests of runs may be at the vendor, and be billed: %s",
                news.requests,
                news.error,
            )


async def _pass(request: Request) -> Request:
    return request
