"""Execution of batches: by the batch APIs of vendors, or requests to the gateway itself."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from math import inf
from typing import Any, Final

import attrs
from msgspec.structs import replace

from vibe_llms.daemons.gateway.batches.answers import AnswerReceiver, encode_lines
from vibe_llms.daemons.gateway.batches.files import (
    ClientFile,
    FileStorage,
    generate_identity,
    perform,
)
from vibe_llms.daemons.gateway.batches.interfaces import BatchClient, VendorChannel
from vibe_llms.daemons.gateway.batches.results import BatchResults
from vibe_llms.daemons.gateway.batches.storage import (
    DAY_SECONDS,
    BatchedAnswer,
    BatchedRequest,
    GatewayBatch,
    GatewayBatchStorage,
    VendorRoad,
)
from vibe_llms.daemons.gateway.batches.uploads import PendingUploads
from vibe_llms.daemons.gateway.responses.inner_calls import InnerCall
from vibe_llms.daemons.server.asgi_types import Application, Scope
from vibe_llms.exceptions import AccessError, ConverseError, StoreError, UnknownNameError
from vibe_llms.foundation.clocks import compute_backoff
from vibe_llms.foundation.forms import FormFile
from vibe_llms.logs.locks import locked
from vibe_llms.plugins.specification.daemons import Reservation

CONCURRENCY: Final = 4
"""Requests of one batch at a time: the other requests of clients go first."""

ATTEMPTS: Final = 5
RETRIED: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""Statuses after which a request is sent again."""

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 60.0
"""How long a batch pauses after its results could not be stored, or its vendor not asked."""

GRACE_SECONDS: Final = DAY_SECONDS
"""How long after its expiry a batch is still read at its vendor, where it expires later."""

SWEEP_SECONDS: Final = 3_600.0
_REQUEST_HEADERS: Final = frozenset({b"expect", b"idempotency-key", b"x-client-request-id"})
"""Headers that belong to one request."""

_LOGGER: Final = logging.getLogger("vibe_llms.daemons")


class GatewayBatchRunner:
    """Runs batches in this process: over vendors' batches, or request by request.

    A batch whose process has died is resumed when its client asks for it: only the client's
    request has the key that its requests need, as keys are not stored.

    Attributes:
        storage: The batches.
        files: The files of clients and of results.
        uploads: Clients' uploads in pieces.
        days: Age at which files and batches that have ended are deleted.
        service: The gateway's application, which answers single requests.
        vendors: Uses the batch APIs of vendors; ``None`` to send all requests one by one.
    """

    def __init__(self, storage: GatewayBatchStorage, files: FileStorage) -> None:
        self.storage = storage
        self.files = files
        self.uploads = PendingUploads(files.folder / "uploads")
        self.days = 30.0
        self._swept = -inf
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._paused: dict[str, float] = {}  # after an error of the disk, until this moment
        self._reservations: dict[tuple[str, int], Reservation] = {}
        self._is_draining = False
        self.service: Application | None = None
        self.vendors: VendorChannel | None = None

    def drain(self) -> None:
        """Send no further requests; requests under way still finish."""
        self._is_draining = True

    async def submit(
        self,
        prefix: str,
        path: str,
        requests: Sequence[BatchedRequest],
        client: BatchClient,
        *,
        input_file: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> GatewayBatch:
        """Store a batch durably, and run it. Raises StoreError.

        Args:
            prefix: Beginning of the ids of the client's protocol.
            path: Path of all requests.
        """
        await self.sweep()
        batch = GatewayBatch(
            id=generate_identity(prefix),
            path=path,
            subject=client.subject,
            total=len(requests),
            created=int(time.time()),
            input_file=input_file,
            metadata=metadata,
        )
        await perform(self.storage.add, batch, requests)
        self.start(batch, client)
        return batch

    async def find(self, identity: str, prefix: str, client: BatchClient) -> GatewayBatch:
        """Return a client's batch, and resume it if no process runs it. Raises UnknownNameError."""
        batch = await perform(self.storage.find, identity, client.subject, prefix)
        self.start(batch, client)
        return batch

    async def survey(self, prefix: str, client: BatchClient) -> list[GatewayBatch]:
        """Return a client's batches, the oldest first; resume those that no process runs."""
        batches = await perform(self.storage.survey, client.subject, prefix)
        for batch in batches:
            self.start(batch, client)
        return batches

    async def add_file(
        self,
        file: FormFile,
        *,
        purpose: str,
        subject: str,
        ends: int | None = None,
    ) -> ClientFile:
        """Store a client's file durably. Raises StoreError."""
        await self.sweep()
        return await self.files.add(
            file.data,
            name=file.name,
            media_type=file.media_type,
            purpose=purpose,
            subject=subject,
            ends=ends,
        )

    def start(self, batch: GatewayBatch, client: BatchClient) -> None:
        """Run a batch, unless it has ended or this process runs it already."""
        paused_until = self._paused.get(batch.id, 0.0)
        if batch.is_over or batch.id in self._tasks or time.monotonic() < paused_until:
            return
        client = attrs.evolve(client, scope=_select_headers(client.scope))
        task = asyncio.create_task(self._run(batch, client))
        self._tasks[batch.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(batch.id, None))

    async def sweep(self) -> None:
        """Delete old files and batches, at most once an hour."""
        if time.monotonic() - self._swept < SWEEP_SECONDS:
            return
        self._swept = time.monotonic()
        before = time.time() - self.days * DAY_SECONDS
        await perform(self.files.sweep, before)
        await perform(self.uploads.sweep, time.time() - DAY_SECONDS)
        await perform(self.storage.sweep, before)

    async def cancel(self, batch: GatewayBatch) -> GatewayBatch:
        """Ask for the end of a batch; requests under way still finish."""
        if batch.is_over or batch.status == "cancelling":
            return batch
        await perform(self.storage.mark_cancelling, batch)
        return await perform(self.storage.find, batch.id, batch.subject, batch.id)

    async def close(self) -> None:
        """Stop all batches; they are resumed by another process."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, batch: GatewayBatch, client: BatchClient) -> None:
        with ExitStack() as stack:
            try:
                try:
                    stack.enter_context(locked(self.storage.locate_lock(batch), wait_seconds=0))
                    # It may have ended between the request of its client and the lock.
                    batch = await perform(self.storage.find, batch.id, batch.subject, batch.id)
                except (StoreError, FileNotFoundError, UnknownNameError):
                    return  # another process runs it or has deleted it
                if not batch.is_over:
                    await self._perform(batch, client)
            except* OSError as errors:
                # Results that cannot be stored would be paid for again with each read.
                self._pause(batch, errors.exceptions[0])

    def _pause(self, batch: GatewayBatch, error: BaseException) -> None:
        self._paused[batch.id] = time.monotonic() + PAUSE_SECONDS
        _LOGGER.error("Batch %s stops until it is read: %s", batch.id, error)

    async def _perform(self, batch: GatewayBatch, client: BatchClient) -> None:
        items = await perform(lambda: list(self.storage.read_items(batch)))
        results = BatchResults(self.storage, batch, await perform(self.storage.read_results, batch))
        roads = await self._access_roads(batch, client, items)
        is_late = time.time() >= batch.expires + GRACE_SECONDS
        open_roads = {road.model: number for number, road in enumerate(roads) if not road.is_closed}
        groups, own = await perform(_group, items, open_roads)
        async with asyncio.TaskGroup() as group_of_tasks:
            sending = group_of_tasks.create_task(self._send(own, results, client))
            following = [
                group_of_tasks.create_task(
                    self._follow(batch, roads, open_roads[name], group, results, client)
                )
                for name, group in groups.items()
                if group and not is_late
            ]
        # Otherwise it is continued later, perhaps by another process.
        if sending.result() and all(task.result() for task in following):
            state, stored = await results.read_state(), self.storage.read_results
            await self._finish(state, await perform(stored, batch))

    async def _access_roads(
        self, batch: GatewayBatch, client: BatchClient, items: Sequence[BatchedRequest]
    ) -> list[VendorRoad]:
        """Return the roads to vendors; choose and store them at first."""
        roads = await perform(self.storage.read_roads, batch)
        if roads is None:
            roads = []
            if self.vendors is not None:
                roads = await self.vendors.choose(client.grant, batch.path, items)
            await perform(self.storage.write_roads, batch, roads)
        return roads

    async def _follow(
        self,
        batch: GatewayBatch,
        roads: list[VendorRoad],
        number: int,
        items: Mapping[str, BatchedRequest],
        results: BatchResults,
        client: BatchClient,
    ) -> bool:
        """Answer the requests of a road; return whether all have ended."""
        assert self.vendors is not None
        follower = self.vendors.produce_follower(
            roads[number],
            items,
            path=batch.path,
            journal=self.storage.locate_vendor_journal(batch, number),
            results=results,
            client=client,
        )
        key = batch.id, number

        async def change(**fields: bool) -> None:
            roads[number] = replace(roads[number], **fields)
            await perform(self.storage.write_roads, batch, roads)

        try:
            is_complete = await follower.open()
            if is_complete and client.grant is not None and not roads[number].is_reserved:
                self._reservations[key] = await follower.reserve(client.grant)
                await change(is_reserved=True)
            is_complete = is_complete and await follower.follow()
        except AccessError as error:  # one by one, the budget may suffice for some of them
            _LOGGER.info("The requests of %s are sent one by one: %s", batch.id, error)
            is_complete = False
        except ConverseError as error:
            self._pause(batch, error)
            return False
        if (reservation := self._reservations.pop(key, None)) is not None:
            await follower.settle(reservation)
        if is_complete:
            return True
        await change(is_closed=True)
        return await self._send(list(items.values()), results, client)

    async def _send(
        self, items: Sequence[BatchedRequest], results: BatchResults, client: BatchClient
    ) -> bool:
        """Send requests without a result to the gateway itself; return whether all have ended."""
        waiting = iter([item for item in items if item.custom_id not in results.done])
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(self._work(waiting, results, client.scope))
        return not self._is_draining

    async def _work(
        self, waiting: Iterator[BatchedRequest], results: BatchResults, scope: Scope
    ) -> None:
        for item in waiting:  # shared: each worker takes the next one
            batch = await results.read_state()
            if batch.status == "cancelling" or time.time() >= batch.expires:
                return
            answer = await self._answer(item, scope)
            if answer is None:
                return
            await results.add(answer)

    async def _answer(self, item: BatchedRequest, scope: Scope) -> BatchedAnswer | None:
        """Send a request, again after an error that may pass.

        Returns:
            The answer; ``None`` if the gateway is shutting down and refuses requests.
        """
        assert self.service is not None
        for attempt in range(1, ATTEMPTS + 1):
            receiver = AnswerReceiver(item.custom_id)
            inner = InnerCall(scope, bytes(item.body), path=item.path)
            try:
                await inner.perform(self.service, receiver.receive)
            except Exception:  # logged by the service
                receiver.status = receiver.status or 500
            if self._is_draining and receiver.status in RETRIED:
                return None
            if receiver.status not in RETRIED or attempt == ATTEMPTS:
                break
            pause = compute_backoff(FIRST_PAUSE_SECONDS, attempt - 1, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(min(max(pause, receiver.retry_seconds), LONGEST_PAUSE_SECONDS))
        return receiver.produce_result()

    async def _finish(self, batch: GatewayBatch, results: list[BatchedAnswer]) -> None:
        """Write the files of results, then the end of the batch."""
        if len(results) == batch.total:
            status = "completed"
        else:
            status = "cancelled" if batch.status == "cancelling" else "expired"
        output = error = None
        if batch.input_file is not None:
            add = partial(self.files.add, purpose="batch_output", subject=batch.subject)
            succeeded = [result for result in results if result.is_success]
            failed = [result for result in results if not result.is_success]
            if succeeded:
                lines = await perform(encode_lines, succeeded)
                output = (await add(lines, name=f"{batch.id}_output.jsonl")).id
            if failed:
                lines = await perform(encode_lines, failed)
                error = (await add(lines, name=f"{batch.id}_error.jsonl")).id
        ended = replace(
            batch,
            status=status,
            ended=int(time.time()),
            completed=sum(result.is_success for result in results),
            failed=sum(not result.is_success for result in results),
            output_file=output,
            error_file=error,
        )
        await perform(self.storage.write, ended)
        await perform(self.storage.remove_vendor_journals, batch)


def _group(
    items: Sequence[BatchedRequest], models: Collection[str]
) -> tuple[dict[str, dict[str, BatchedRequest]], list[BatchedRequest]]:
    """Return the requests to models, by the clients' ids, and all others."""
    groups: dict[str, dict[str, BatchedRequest]] = {name: {} for name in models}
    others = []
    for item in items:
        group = groups.get(item.find_model()) if groups else None
        if group is None:
            others.append(item)
        else:
            group[item.custom_id] = item
    return groups, others


def _select_headers(scope: Scope) -> Scope:
    """Return the scope for the requests of a batch.

    It has the credentials of the client's request, and no header that belongs to that one alone.
    """
    headers = [pair for pair in scope["headers"] if pair[0].lower() not in _REQUEST_HEADERS]
    return {**scope, "headers": headers, "query_string": b""}
