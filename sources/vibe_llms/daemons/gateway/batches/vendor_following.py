"""One road of a batch: its requests are submitted to the vendor, and its answers are read."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from vibe_llms.batches.file_journals import FileJournal, open_file_journal
from vibe_llms.batches.item_lines import digest
from vibe_llms.batches.items import BatchInput, BatchItem, BatchTally
from vibe_llms.batches.runs import BatchRun, Inputs
from vibe_llms.batches.sources import InputSource
from vibe_llms.batches.submitting import ChunkCourse, ChunkNews
from vibe_llms.batches.vendor_backend import VendorBackend
from vibe_llms.batches.vendor_chunks import ChunkEnd, ChunkLog, find_path
from vibe_llms.daemons.gateway.batches.storage import BatchedAnswer, BatchedRequest, VendorRoad
from vibe_llms.daemons.gateway.batches.vendor_roads import (
    FACES,
    choose_roads,
    produce_vendor_batches,
)
from vibe_llms.daemons.gateway.batches.vendor_work import ClientModel, ClientWork
from vibe_llms.daemons.gateway.estimating import estimate, price_in_cents
from vibe_llms.daemons.records import CallRecord, Listener
from vibe_llms.exceptions import CapabilityError, ConverseError
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.views import add_usages
from vibe_llms.plugins.specification.daemons import Demand, Grant, Reservation
from vibe_llms.providers.batches import was_refused
from vibe_llms.providers.batching import AnyBatches, ModelBatches, was_not_run
from vibe_llms.telemetry.discounts import BATCH_DISCOUNTS

if TYPE_CHECKING:
    from pathlib import Path

    from vibe_llms.daemons.gateway.batches.interfaces import BatchClient
    from vibe_llms.daemons.gateway.batches.results import BatchResults
    from vibe_llms.daemons.gateway.gateway import Gateway

TIER: Final = "batch"
WAY: Final = "batch"
"""Price tier of the answers, and their way in records of requests."""

WATCH_SECONDS: Final = 1.0
"""How often answers are stored, and the client's wish to cancel is read."""

_GROUP: Final = 64
"""Number of requests that are translated before other tasks may run."""

_LOGGER: Final = logging.getLogger("vibe_llms.daemons")


class GatewayVendors:
    """Batch APIs of the vendors behind the gateway: a ``VendorChannel``.

    Args:
        gateway: Has the targets.
        report: Receives a record for each answer.
    """

    def __init__(self, gateway: Gateway, report: Listener) -> None:
        self._gateway = gateway
        self._report = report

    async def choose(
        self, grant: Grant | None, path: str, items: Sequence[BatchedRequest]
    ) -> list[VendorRoad]:
        """Choose a target with a batch API for each model that has one."""
        return await choose_roads(self._gateway, grant, path, items)

    def produce_follower(
        self, road: VendorRoad, items: Mapping[str, BatchedRequest], **options: Any
    ) -> RoadFollower:
        """Return the follower of a road."""
        return RoadFollower(self._gateway, self._report, road, items, **options)


class RoadFollower:
    """Follower of one road; see :class:`.interfaces.VendorFollower`.

    Args:
        gateway: Has the targets.
        report: Receives a record for each answer.
        road: The road.
        items: All of its requests, by the clients' ids.
        path: Path of the requests.
        journal: Path of the journal of answers; the submissions are recorded beside it.
        results: Receives the answers.
        client: The client.
    """

    def __init__(
        self,
        gateway: Gateway,
        report: Listener,
        road: VendorRoad,
        items: Mapping[str, BatchedRequest],
        *,
        path: str,
        journal: Path,
        results: BatchResults,
        client: BatchClient,
    ) -> None:
        self.road = road
        self._gateway = gateway
        self._items = items
        self._path = path
        self._journal_path = journal
        self._results = results
        self._client = client
        self._report = report
        self._model: ClientModel
        self._work: ClientWork
        self._batches: AnyBatches
        self._unwritten: list[BatchedAnswer] = []
        self._writing = asyncio.Lock()
        self._is_cancelling = False
        self._at_vendor: dict[str, int] = {}
        self._received = self._ended = 0
        self._count = 0
        self._usage: Usage | None = None
        self._cents: Decimal | None = Decimal(0)

    async def open(self) -> bool:
        """Find the target; return whether it has a batch API. Raises ConverseError."""
        face, road = FACES[self._path], self.road
        try:
            upstream = await self._gateway.upstreams.reach(
                road.address, strict=road.strict, genus=face.genus
            )
            vendor_batches = produce_vendor_batches(upstream, face, self._path)
            if vendor_batches is None:
                raise CapabilityError(
                    model=road.address,
                    capability="batches",
                    detail=f"The provider of {road.address} has no batch API.",
                )
        except ConverseError:
            if self._has_submitted:
                raise
            return False
        self._model = ClientModel(self._gateway, face, upstream, self._client.scope)
        self._work = ClientWork(self._model, self._items)
        self._batches = ModelBatches(self._model, vendor_batches)
        return self._has_submitted or await self._can_list()

    @property
    def _has_submitted(self) -> bool:
        """True if requests may be at the vendor."""
        return find_path(self._journal_path).exists()

    async def _can_list(self) -> bool:
        """Return whether the vendor lists its batches; without, none can be found after a crash.

        Some servers with OpenAI's protocol have no batches.
        """
        try:
            await self._batches.find("", since=time.time(), requests=(), known=())
        except ConverseError as error:
            if was_refused(error):
                return False
            raise
        return True

    async def reserve(self, grant: Grant) -> Reservation:
        """Reserve the maximum cost of all requests, at the price of batches. Raises AccessError."""
        upstream = self._model.upstream
        provider, _ = upstream.model.descriptor.price_key
        discount = BATCH_DISCOUNTS.get(provider)
        inputs, outputs = 0, 0
        cents: Decimal | None = Decimal(0)
        for number, item in enumerate(self._items.values()):
            if number % _GROUP == 0:
                await asyncio.sleep(0)
            try:
                call = self._model.compose_call(item)
            except ConverseError:  # it will not be submitted
                continue
            demand = estimate(call.request, upstream)
            inputs += demand.input_tokens
            outputs += demand.output_tokens or 0
            cents = None if cents is None or demand.cents is None else cents + demand.cents
        if cents is not None and discount is not None:
            cents *= discount.share
        return await grant.reserve(
            Demand(
                model=self.road.model,
                address=self.road.address,
                input_tokens=inputs,
                output_tokens=outputs,
                cents=cents,
                is_paced=False,
            )
        )

    async def settle(self, reservation: Reservation) -> None:
        """Replace the reservation by the real usage of all answers."""
        if self._count:
            await reservation.settle(self._usage, self._cents)
        else:
            await reservation.release()

    async def follow(self) -> bool:
        """Submit, wait and read; return whether the vendor took all requests.

        Raises:
            ConverseError: As :meth:`.interfaces.VendorFollower.follow`.
        """
        settings = digest([self.road.address, self._path])
        async with AsyncExitStack() as stack:
            journal = await open_file_journal(stack, self._journal_path, settings)
            log = ChunkLog(self._journal_path, settings)
            stack.callback(log.close)
            is_over = asyncio.Event()
            watcher = asyncio.create_task(self._watch(log, is_over))
            try:
                return await self._collect(journal, log)
            finally:
                is_over.set()
                await watcher
                await self._write()

    async def _collect(self, journal: FileJournal, log: ChunkLog) -> bool:
        try:
            await self._take(self._iterate(), journal, log)
        except ConverseError:
            if not any(chunk.end == ChunkEnd.REFUSED for chunk in log.chunks.values()):
                raise
        else:
            return True
        await self._take((), journal, log)  # other chunks were submitted before
        return False

    async def _take(self, inputs: Inputs, journal: FileJournal, log: ChunkLog) -> None:
        """Submit inputs, and collect the answers to all that were submitted."""
        backend: VendorBackend[Any] = VendorBackend(
            self._work, self._batches, log, journal, listener=self._listen, resubmits=False
        )
        source = InputSource(self._work, journal, retries_failed=False)
        run: BatchRun[Any] = BatchRun(source, journal, backend, BatchTally())
        async with aclosing(run.perform(inputs)) as items:
            async for item in items:
                self._receive(item)

    async def _iterate(self) -> AsyncIterator[BatchInput]:
        for name, item in self._items.items():
            if self._is_cancelling:
                return
            yield BatchInput(item, name)
            await asyncio.sleep(0)

    def _receive(self, item: BatchItem[Any]) -> None:
        """Convert an item to the client's result; count its usage."""
        self._received += 1
        answer: BatchedAnswer | None = None
        assert item.id is not None
        if item.error is None:
            value: Any = item.value
            answer = replace(value, losses=item.losses)
        elif not was_not_run(item.error):
            answer = self._work.write_error(self._items[item.id], item.error)
        usage = None if item.origin is None else item.origin.usage
        cents: Decimal | None = Decimal(0)
        if item.origin is not None:
            self._count += 1
            cents = price_in_cents(usage, self._model.descriptor, TIER)
            self._usage = add_usages((self._usage, usage))
            self._cents = None if self._cents is None or cents is None else self._cents + cents
        if answer is None:
            return
        self._unwritten.append(answer)
        if not item.is_stored:
            self._report(self._compose_record(answer, usage, cents, item.seconds))

    def _compose_record(
        self, answer: BatchedAnswer, usage: Usage | None, cents: Decimal | None, seconds: float
    ) -> CallRecord:
        """Return the record of an answer for logs and metrics."""
        return CallRecord(
            request_id=answer.request_id,
            method="POST",
            path=self._path,
            route=self._path,
            started=asyncio.get_running_loop().time() - seconds,
            seconds=seconds,
            subject=self._client.subject,
            face=FACES[self._path].name,
            way=WAY,
            model=self.road.model,
            address=self.road.address,
            status=answer.status,
            known_usage=usage,
            cents=cents,
            sent_bytes=len(bytes(answer.body)),
        )

    async def _watch(self, log: ChunkLog, is_over: asyncio.Event) -> None:
        """Store answers and counts, and cancel the vendor's batches if the client wants it."""
        cancelled: set[str] = set()
        while not is_over.is_set():
            await self._write()
            await self._results.show_progress(self.road.model, self._count_unread())
            self._is_cancelling = self._is_cancelling or await self._results.is_cancelling()
            if self._is_cancelling:
                for chunk in log.open_chunks:
                    if chunk.vendor and chunk.vendor not in cancelled:
                        cancelled.add(chunk.vendor)
                        await self._cancel(chunk.vendor)
            try:
                async with asyncio.timeout(WATCH_SECONDS):
                    await is_over.wait()
            except TimeoutError:
                pass

    async def _cancel(self, identity: str) -> None:
        try:
            await self._batches.cancel(identity)
        except ConverseError as error:  # it may have ended
            _LOGGER.warning("cannot cancel the batch %s of %s: %s", identity, self.road, error)

    async def _write(self) -> None:
        """Store the answers that were read."""
        async with self._writing:
            answers, self._unwritten = self._unwritten, []
            if answers:
                await self._results.add(*answers)

    def _count_unread(self) -> int:
        """Return how many answers the vendor has that were not read."""
        return max(0, sum(self._at_vendor.values()) - (self._received - self._ended))

    def _listen(self, news: ChunkNews) -> None:
        if news.course in (ChunkCourse.ENDED, ChunkCourse.LOST):
            self._at_vendor.pop(news.vendor, None)
            self._ended += news.requests
        elif news.vendor:
            self._at_vendor[news.vendor] = news.done
