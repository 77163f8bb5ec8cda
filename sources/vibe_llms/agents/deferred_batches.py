"""Deferred requests to one model: gathered into batches of its vendor, and answered from them.

A batch is in doubt while it is unknown whether the vendor has received it. Neither such a batch nor
a run that cannot receive its answer blocks the others.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from vibe_llms.batches.items import DueInput
from vibe_llms.batches.submitting import (
    FIRST_PAUSE_SECONDS,
    ChunkNews,
    Submitter,
    lengthen,
)
from vibe_llms.batches.vendor_chunks import Chunk, ChunkEnd, ChunkLog, name_item
from vibe_llms.events.engine import GenerationAnsweredEvent
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault, StreamTruncatedError
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.batches import BatchResult, BatchState, Fate
from vibe_llms.providers.batching import ModelBatches

_LOGGER = logging.getLogger(__name__)

GATHER_SECONDS: Final = 60.0
"""Time to gather further requests after the first; a batch takes minutes or hours."""

MAX_READS: Final = 30
"""Attempts to read results that are truncated each time: about half an hour."""

UNSENT: Final = "unsent"
LOST: Final = "lost"

_GONE: Final = "the vendor no longer has its batch or the results"


class BatchesOwner(Protocol):
    """Owner of the batches: :class:`vibe_llms.agents.deferred_requests.DeferredRequests`."""

    name: str

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task until the owner is closed."""

    async def deliver(self, name: str, message: GenerationAnsweredEvent) -> None:
        """Put the answer to a request into its run's inbox. Raises ConverseError."""


def compose_answer(key: str, fate: str, body: str = "") -> GenerationAnsweredEvent:
    """Return the message for a request without an answer from the vendor."""
    return GenerationAnsweredEvent(key=key, fate=fate, body=body, message_id=produce_identity())


class DeferredBatches:
    """Batches of deferred requests to one model: a :class:`.DeferralBackend`."""

    tier = "batch"

    def __init__(
        self, owner: BatchesOwner, batches: ModelBatches[Request, Response], log: ChunkLog
    ) -> None:
        self._owner = owner
        self._batches = batches
        self._log = log
        self._submitter = Submitter(_return_unchanged, batches, log, self._report_doubt)
        self._gathered: dict[str, Request] = {}
        self._being_submitted: dict[str, Request] = {}
        self._submitting = asyncio.Lock()
        self._is_watching = False
        self._delivered: dict[str, set[int]] = {}  # by chunk, places of the requests answered
        self._reads: dict[str, int] = {}  # by chunk, the number of truncated reads
        self._undelivered: dict[str, GenerationAnsweredEvent] = {}
        self._being_located: set[str] = set()
        self._is_doubt_reported = False

    @property
    def name(self) -> str:
        """The name under which logs record the requests."""
        return self._owner.name

    def resume(self) -> None:
        """Continue with batches that were submitted before."""
        if self._log.open_chunks:
            self._watch_soon()

    def put(self, conversation_id: str, request: Request) -> None:
        """Defer a request; do nothing if it is deferred already."""
        name = f"{conversation_id}/{request.canisters[-1].id}"
        known_names = (self._gathered, self._being_submitted, self._list_submitted())
        if any(name in names for names in known_names):
            return
        self._gathered[name] = request
        if len(self._gathered) == 1:
            self._owner.spawn(self._submit())

    async def read(self, message: GenerationAnsweredEvent, request: Request) -> Response:
        """Read an answer. Raises ConverseError if the request has none."""
        if message.fate == LOST:
            raise ProviderError(
                fault=ProviderFault.NOT_FOUND,
                detail=f"{message.body or _GONE}; its answer may have been billed.",
                remedy="Resume the run to ask again.",
            )
        body = message.body.encode()
        result = BatchResult(
            id=message.message_id, fate=Fate(message.fate), body=body, status=message.status
        )
        # The translation is pure: repeat it for its losses.
        losses = self._batches.translate(message.message_id, request).losses
        return await self._batches.read_response(result, request, losses)

    def _list_submitted(self) -> set[str]:
        return {str(item.id) for chunk in self._log.open_chunks for item in chunk.items}

    async def _submit(self) -> None:
        """Submit the gathered requests after a while."""
        await self._batches.clock.sleep(GATHER_SECONDS)
        async with self._submitting:
            refused = await self._submit_gathered()
        for name, reason in refused.items():
            body = json.dumps({"error": {"message": str(reason)}})
            await self._return_request(name, Fate.FAILED, body)
        self._watch_soon()

    async def _return_request(self, name: str, fate: str, body: str = "") -> None:
        """Tell a run that the vendor does not have its request; retry later if that fails."""
        message = compose_answer(name.rpartition("/")[2], fate, body)
        if not await self._deliver(name, message):
            self._undelivered[name] = message

    async def _deliver(self, name: str, message: GenerationAnsweredEvent) -> bool:
        """Deliver an answer to one run; return ``False`` if that fails."""
        try:
            await self._owner.deliver(name, message)
        except ConverseError as error:  # such as a full inbox
            run_id = name.partition("/")[0]
            _LOGGER.warning("cannot deliver the result of a request to %s yet: %s", run_id, error)
            return False
        return True

    async def _submit_gathered(self) -> dict[str, ConverseError]:
        """Return the requests that were not submitted, with the reasons."""
        gathered, self._gathered = self._gathered, {}
        self._being_submitted = gathered
        refused: dict[str, ConverseError] = {}
        try:
            for name, request in gathered.items():
                try:
                    translation = await self._submitter.translate(request)
                except ConverseError as error:
                    refused[name] = error
                else:
                    await self._submitter.add(DueInput(0, name, request), translation)
            await self._submitter.flush()
        except ConverseError as error:
            submitted = self._list_submitted()
            refused |= {name: error for name in gathered if name not in submitted}
        finally:
            self._being_submitted = {}
        return refused

    # --- batches at the vendor -----------------------------------------------------------------

    def _watch_soon(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            self._owner.spawn(self._watch())

    async def _watch(self) -> None:
        """Poll all batches that were or may have been submitted until none is left."""
        pause = FIRST_PAUSE_SECONDS
        try:
            while self._has_open:
                await self._poll_all()
                if self._has_open:
                    await self._batches.clock.sleep(pause)
                    pause = lengthen(pause)
        finally:
            self._is_watching = False
        if not self._submitting.locked():  # an intent may be about to be written
            self._log.forget()

    @property
    def _has_open(self) -> bool:
        """True if answers are expected or undelivered."""
        return bool(
            self._undelivered
            or any(each.vendor for each in self._log.open_chunks)
            or self._find_doubtful()
        )

    def _find_doubtful(self) -> list[Chunk]:
        """Return the chunks in doubt; none while the submitter is at work."""
        if self._submitting.locked():
            return []
        return [each for each in self._log.open_chunks if not each.vendor]

    async def _poll_all(self) -> None:
        for name, message in list(self._undelivered.items()):
            if await self._deliver(name, message):
                self._undelivered.pop(name, None)
        for chunk in self._find_doubtful():
            if chunk.chunk not in self._being_located:
                self._being_located.add(chunk.chunk)
                # In the background: it may wait for the end of a similar batch.
                self._owner.spawn(self._locate(chunk))
        for chunk in [each for each in self._log.open_chunks if each.vendor]:
            try:
                await self._poll(chunk)
            except ConverseError as error:  # the next poll may succeed
                _LOGGER.warning("cannot read the batch %s yet: %s", chunk.vendor, error)

    async def _locate(self, chunk: Chunk) -> None:
        """Find out whether the vendor has a chunk; retry later if it stays in doubt."""
        try:
            await self._submitter.resume([chunk])
        except ConverseError as error:
            _LOGGER.warning("cannot save the results of a batch: %s", error)
        finally:
            self._being_located.discard(chunk.chunk)
        if chunk.vendor or chunk.end:
            self._is_doubt_reported = False
        if chunk.end == ChunkEnd.ABSENT:  # requested again: the vendor never billed it
            for item in chunk.items:
                await self._return_request(str(item.id), UNSENT)
        self._watch_soon()

    async def _poll(self, chunk: Chunk) -> None:
        """Poll a chunk; if it has ended, deliver the answers to the runs."""
        try:
            state = await self._batches.poll(chunk.vendor)
            if not state.has_ended:
                return
            answered = await self._read(chunk, state)
        except ProviderError as error:
            if error.fault is not ProviderFault.NOT_FOUND:
                raise
            await self._end(chunk, set(), LOST, _GONE, ChunkEnd.LOST)
            return
        except StreamTruncatedError as error:
            reads = self._reads[chunk.chunk] = self._reads.get(chunk.chunk, 0) + 1
            if reads < MAX_READS:
                raise
            await self._end(chunk, set(), LOST, str(error), ChunkEnd.LOST)
            return
        failure = json.dumps({"error": {"message": state.failure}}) if state.failure else ""
        fate = Fate.FAILED if failure else Fate.CANCELLED
        await self._end(chunk, answered, fate, failure, ChunkEnd.READ)

    async def _read(self, chunk: Chunk, state: BatchState) -> set[int]:
        """Deliver the answers; return the places of the requests that have one."""
        answered: set[int] = set()
        async for result in self._batches.read(state):
            place = chunk.find_index(result.id)
            if place is not None:
                answered.add(place)
                body = result.body.decode("utf-8", "replace")
                await self._deliver_result(chunk, place, result.fate, body, result.status)
        return answered

    async def _end(
        self, chunk: Chunk, answered: set[int], fate: str, body: str, end: ChunkEnd
    ) -> None:
        """Answer the rest of a chunk; end it once all of its runs have their answers."""
        places = range(len(chunk.items))
        for place in places:
            if place not in answered:
                await self._deliver_result(chunk, place, fate, body, None)
        if len(self._delivered.get(chunk.chunk, ())) < len(places):
            return  # the next poll reads all of it again
        await self._log.end(chunk, end)
        self._delivered.pop(chunk.chunk, None)
        self._reads.pop(chunk.chunk, None)

    async def _deliver_result(
        self, chunk: Chunk, place: int, fate: str, body: str, status: int | None
    ) -> None:
        delivered = self._delivered.setdefault(chunk.chunk, set())
        if place in delivered:
            return
        name = str(chunk.items[place].id)
        message = GenerationAnsweredEvent(
            key=name.rpartition("/")[2],
            fate=str(fate),
            body=body,
            status=status,
            seconds=max(time.time() - chunk.at, 0.0),
            message_id=name_item(chunk.chunk, place),  # a second read delivers nothing twice
        )
        if await self._deliver(name, message):
            delivered.add(place)

    def _report_doubt(self, news: ChunkNews) -> None:
        if news.error is not None and not self._is_doubt_reported:
            self._is_doubt_reported = True
            _LOGGER.warning(
                "%d requests of runs may be at the vendor, and may be billed: %s",
                news.requests,
                news.error,
            )


async def _return_unchanged(request: Request) -> Request:
    return request
