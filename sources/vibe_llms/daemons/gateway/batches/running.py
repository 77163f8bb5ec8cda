"""Execution of batches: their requests go to the gateway itself, some at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from math import inf
from typing import Any, Final

from msgspec.structs import replace

from vibe_llms.daemons.gateway.batches.answers import AnswerReceiver, encode_lines
from vibe_llms.daemons.gateway.batches.files import (
    ClientFile,
    FileStorage,
    generate_identity,
    perform,
)
from vibe_llms.daemons.gateway.batches.storage import (
    DAY_SECONDS,
    BatchedAnswer,
    BatchedRequest,
    GatewayBatch,
    GatewayBatchStorage,
)
from vibe_llms.daemons.gateway.responses.inner_calls import InnerCall
from vibe_llms.daemons.server.asgi_types import Application, Scope
from vibe_llms.exceptions import StoreError, UnknownNameError
from vibe_llms.foundation.clocks import compute_backoff
from vibe_llms.logs.locks import locked

CONCURRENCY: Final = 4
"""Requests of one batch at a time: the other requests of clients go first."""

ATTEMPTS: Final = 5
RETRIED: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""Statuses after which a request is sent again."""

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0
DISK_PAUSE_SECONDS: Final = 60.0
"""How long a batch pauses after its results could not be stored."""
SWEEP_SECONDS: Final = 3_600.0
_COUNT_INTERVAL: Final = 16
"""Number of results after which the counts in the batch's state are written."""

_REQUEST_HEADERS: Final = frozenset({b"expect", b"idempotency-key", b"x-client-request-id"})
"""Headers that belong to one request."""

_LOGGER: Final = logging.getLogger("vibe_llms.daemons")


class GatewayBatchRunner:
    """Runs batches in this process.

    A batch whose process has died is resumed when its client asks for it: only the client's
    request has the key that its requests need, as keys are not stored.

    Attributes:
        storage: The batches.
        files: The files of requests and results.
        days: Age at which files and batches that have ended are deleted.
        service: The gateway, which answers the requests.
    """

    def __init__(self, storage: GatewayBatchStorage, files: FileStorage) -> None:
        self.storage = storage
        self.files = files
        self.days = 30.0
        self._swept = -inf
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._paused: dict[str, float] = {}  # after an error of the disk, until this moment
        self._is_draining = False
        self.service: Application | None = None

    def drain(self) -> None:
        """Send no further requests; requests under way still finish."""
        self._is_draining = True

    async def submit(
        self,
        prefix: str,
        path: str,
        requests: Sequence[BatchedRequest],
        *,
        subject: str,
        scope: Scope,
        input_file: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> GatewayBatch:
        """Store a batch durably, and run it. Raises StoreError.

        Args:
            prefix: Beginning of the ids of the client's protocol.
            path: Path of all requests.
            subject: Name of the client.
            scope: That of the client's request, whose credentials the requests of the batch have.
        """
        await self.sweep()
        batch = GatewayBatch(
            id=generate_identity(prefix),
            path=path,
            subject=subject,
            total=len(requests),
            created=int(time.time()),
            input_file=input_file,
            metadata=metadata,
        )
        await perform(self.storage.add, batch, requests)
        self.start(batch, scope)
        return batch

    async def find(self, identity: str, prefix: str, subject: str, scope: Scope) -> GatewayBatch:
        """Return a client's batch, and resume it if no process runs it. Raises UnknownNameError."""
        batch = await perform(self.storage.find, identity, subject, prefix)
        self.start(batch, scope)
        return batch

    async def survey(self, prefix: str, subject: str, scope: Scope) -> list[GatewayBatch]:
        """Return a client's batches, the oldest first; resume those that no process runs."""
        batches = await perform(self.storage.survey, subject, prefix)
        for batch in batches:
            self.start(batch, scope)
        return batches

    async def add_file(self, data: bytes, *, name: str, purpose: str, subject: str) -> ClientFile:
        """Store a client's file durably. Raises StoreError."""
        await self.sweep()
        return await self.files.add(data, name=name, purpose=purpose, subject=subject)

    def start(self, batch: GatewayBatch, scope: Scope) -> None:
        """Run a batch, unless it has ended or this process runs it already."""
        paused_until = self._paused.get(batch.id, 0.0)
        if batch.is_over or batch.id in self._tasks or time.monotonic() < paused_until:
            return
        task = asyncio.create_task(self._run(batch, _select_headers(scope)))
        self._tasks[batch.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(batch.id, None))

    async def sweep(self) -> None:
        """Delete old files and batches, at most once an hour."""
        if time.monotonic() - self._swept < SWEEP_SECONDS:
            return
        self._swept = time.monotonic()
        before = time.time() - self.days * DAY_SECONDS
        await perform(self.files.sweep, before)
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

    async def _run(self, batch: GatewayBatch, scope: Scope) -> None:
        with ExitStack() as stack:
            try:
                try:
                    stack.enter_context(locked(self.storage.locate_lock(batch), wait_seconds=0))
                    # It may have ended between the request of its client and the lock.
                    batch = await perform(self.storage.find, batch.id, batch.subject, batch.id)
                except (StoreError, FileNotFoundError, UnknownNameError):
                    return  # another process runs it or has deleted it
                if not batch.is_over:
                    await self._perform(batch, scope)
            except* OSError as errors:
                error = errors.exceptions[0]
                # Results that cannot be stored would be paid for again with each read.
                self._paused[batch.id] = time.monotonic() + DISK_PAUSE_SECONDS
                _LOGGER.error("Batch %s stops until it is read: %s", batch.id, error)

    async def _perform(self, batch: GatewayBatch, scope: Scope) -> None:
        results = await perform(self.storage.read_results, batch)
        done = {result.custom_id for result in results}
        items = await perform(lambda: list(self.storage.read_items(batch)))
        waiting = iter([item for item in items if item.custom_id not in done])
        counter = _Counter(self.storage, batch, results)
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(self._work(waiting, counter, scope))
        if self._is_draining:  # another process continues
            return
        results = await perform(self.storage.read_results, batch)
        await self._finish(await counter.read_state(), results)

    async def _work(
        self, waiting: Iterator[BatchedRequest], counter: _Counter, scope: Scope
    ) -> None:
        for item in waiting:  # shared: each worker takes the next one
            batch = await counter.read_state()
            if batch.status == "cancelling" or time.time() >= batch.expires:
                return
            answer = await self._answer(item, scope)
            if answer is None:
                return
            await counter.add(answer)

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


def _select_headers(scope: Scope) -> Scope:
    """Return the scope for the requests of a batch.

    It has the credentials of the client's request, and no header that belongs to that one alone.
    """
    headers = [pair for pair in scope["headers"] if pair[0].lower() not in _REQUEST_HEADERS]
    return {**scope, "headers": headers, "query_string": b""}


class _Counter:
    """Adds results to the journal, and counts them in the state of the batch."""

    def __init__(
        self, storage: GatewayBatchStorage, batch: GatewayBatch, results: list[BatchedAnswer]
    ) -> None:
        self._storage = storage
        self._batch = batch
        self._completed = sum(result.is_success for result in results)
        self._failed = len(results) - self._completed
        self._lock = asyncio.Lock()

    async def read_state(self) -> GatewayBatch:
        """Return the state, which another process may have changed to cancel the batch."""
        batch = self._batch
        return await perform(self._storage.find, batch.id, batch.subject, batch.id)

    async def add(self, result: BatchedAnswer) -> None:
        await perform(self._storage.append_result, self._batch, result)
        self._completed += result.is_success
        self._failed += not result.is_success
        if (self._completed + self._failed) % _COUNT_INTERVAL == 0:
            async with self._lock:
                state = await self.read_state()
                changed = replace(state, completed=self._completed, failed=self._failed)
                await perform(self._storage.write, changed)
