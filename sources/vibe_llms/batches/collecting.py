"""Collector of results from a vendor's batches."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, Generic, TypeVar

import attrs

from vibe_llms.batches.direct_backend import wrap_error
from vibe_llms.batches.file_journals import FileJournal
from vibe_llms.batches.items import BatchItem, DueInput
from vibe_llms.batches.runs import BatchRun
from vibe_llms.batches.sources import VendorWork
from vibe_llms.batches.submitting import (
    FIRST_PAUSE_SECONDS,
    ChunkCourse,
    ChunkNews,
    Listener,
    lengthen,
)
from vibe_llms.batches.vendor_chunks import Chunk, ChunkEnd, ChunkLog, name_item
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault
from vibe_llms.providers.batches import BatchResult, BatchState, Fate
from vibe_llms.providers.batching import AnyBatches

T = TypeVar("T")

TIER: Final = "batch"
"""Price tier of answers in a vendor's batch."""


class Collector(Generic[T]):
    """Collector of the results of chunks.

    Args:
        run: Journals and counts the result of each item.
        work: Parses answers into values.
        batches: Batch API of the vendor.
        log: Log of the submitted chunks.
        journal: Result journal.
        report: Called with each event of a chunk.
        due_inputs: Inputs that await a result, by their names at the vendor.
    """

    def __init__(
        self,
        run: BatchRun[T],
        work: VendorWork,
        batches: AnyBatches,
        log: ChunkLog,
        journal: FileJournal,
        report: Listener,
        due_inputs: dict[str, DueInput],
    ) -> None:
        self._run = run
        self._work = work
        self._batches = batches
        self._log = log
        self._report = report
        self._journal = journal
        self.due_inputs = due_inputs

    async def collect(self) -> AsyncGenerator[BatchItem[T], None]:
        """Wait for all submitted chunks; yield their results."""
        pause = FIRST_PAUSE_SECONDS
        while open_chunks := [each for each in self._log.open_chunks if each.vendor]:
            for chunk in open_chunks:
                async with aclosing(self._poll(chunk)) as items:
                    async for item in items:
                        yield item
            if any(not chunk.end for chunk in open_chunks):
                await self._batches.clock.sleep(pause)
                pause = lengthen(pause)

    async def _poll(self, chunk: Chunk) -> AsyncGenerator[BatchItem[T], None]:
        """Check the status of a chunk; read its results if it has ended."""
        try:
            state = await self._batches.poll(chunk.vendor)
        except ConverseError as error:
            if error.is_retryable:  # the next poll may reach the vendor
                return
            if not isinstance(error, ProviderError) or error.fault is not ProviderFault.NOT_FOUND:
                raise
            async with aclosing(self._end(chunk, error, ChunkEnd.LOST)) as items:
                async for item in items:
                    yield item
            return
        self._report_chunk(ChunkCourse.WAITING, chunk, state)
        if not state.has_ended:
            return
        expired: ProviderError | None = None
        try:
            async with aclosing(self._read(chunk, state)) as items:
                async for item in items:
                    yield item
        except ProviderError as error:
            if error.fault is not ProviderFault.NOT_FOUND:
                raise
            expired = error
        if expired is not None:  # vendors keep results for some weeks; these have expired
            async with aclosing(
                self._end(chunk, self._batches.refuse_deleted(expired), ChunkEnd.LOST)
            ) as items:
                async for item in items:
                    yield item
            return
        # Requests without a result: either the vendor refused the whole chunk, or it was cancelled.
        if state.failure:
            reason = self._batches.refuse_all(state.failure)
        else:
            reason = self._batches.produce_error(BatchResult(id="", fate=Fate.CANCELLED))
        async with aclosing(self._end(chunk, reason, ChunkEnd.READ)) as items:
            async for item in items:
                yield item

    async def _read(self, chunk: Chunk, state: BatchState) -> AsyncGenerator[BatchItem[T], None]:
        """Read the results; restart from the beginning if the connection breaks."""
        attempt_number = 1
        while True:
            try:
                async for result in self._batches.read(state):
                    item = await self._take(chunk, result)
                    if item is not None:
                        yield item
                return
            except ConverseError as error:
                wait = self._batches.policy.decide(error, attempt_number, 1.0)
                if wait is None:
                    raise
            attempt_number += 1
            await self._batches.clock.sleep(wait)

    async def _take(self, chunk: Chunk, result: BatchResult) -> BatchItem[T] | None:
        """Write the result of a request; return ``None`` if it was written before."""
        place = chunk.find_index(result.id)
        due = self.due_inputs.pop(result.id, None)
        if place is None or due is None:
            return None
        try:
            name = chunk.items[place].id
            item = await self._work.read_result(self._batches, result, name)
        except Exception as error:
            item = BatchItem(error=wrap_error(error))
        tier = TIER if result.fate is Fate.ANSWERED else ""
        losses = (*chunk.items[place].losses, *item.losses)
        return await self._deliver(chunk, due, attrs.evolve(item, tier=tier, losses=losses))

    async def _end(
        self, chunk: Chunk, error: ConverseError, end: ChunkEnd
    ) -> AsyncGenerator[BatchItem[T], None]:
        """End a chunk; requests without a result have failed."""
        for place in range(len(chunk.items)):
            due = self.due_inputs.pop(name_item(chunk.chunk, place), None)
            if due is not None:
                yield await self._deliver(chunk, due, BatchItem(error=error))
        # Synchronize the results first: the end of the chunk must not reach the disk before them.
        await self._journal.secure()
        await self._log.end(chunk, end)
        course = ChunkCourse.LOST if end is ChunkEnd.LOST else ChunkCourse.ENDED
        self._report_chunk(course, chunk)

    async def _deliver(self, chunk: Chunk, due: DueInput, item: BatchItem[Any]) -> BatchItem[T]:
        seconds = max(time.time() - chunk.at, 0.0)
        complete_item = attrs.evolve(item, index=due.index, id=due.id, seconds=seconds)
        return await self._run.deliver(due, complete_item)

    def _report_chunk(
        self, course: ChunkCourse, chunk: Chunk, state: BatchState | None = None
    ) -> None:
        done = 0 if state is None else state.done
        requests = len(chunk.items)
        self._report(ChunkNews(course=course, vendor=chunk.vendor, requests=requests, done=done))
