"""Results of a running batch."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import replace

from vibe_llms.daemons.gateway.batches.files import perform
from vibe_llms.daemons.gateway.batches.storage import (
    BatchedAnswer,
    GatewayBatch,
    GatewayBatchStorage,
)

_COUNT_INTERVAL: Final = 16
"""Number of results after which the counts in the batch's state are written."""


class BatchResults:
    """Results of a batch: adds them to the journal, and counts them in the state of the batch.

    Attributes:
        done: The clients' ids of the requests with a result.
    """

    def __init__(
        self, storage: GatewayBatchStorage, batch: GatewayBatch, results: list[BatchedAnswer]
    ) -> None:
        self._storage = storage
        self._batch = batch
        self.done = {result.custom_id for result in results}
        self._completed = sum(result.is_success for result in results)
        self._failed = len(results) - self._completed
        self._written = len(results)
        self._at_vendors: dict[str, int] = {}
        self._lock = asyncio.Lock()

    async def read_state(self) -> GatewayBatch:
        """Return the state, which another process may have changed to cancel the batch."""
        batch = self._batch
        return await perform(self._storage.find, batch.id, batch.subject, batch.id)

    async def is_cancelling(self) -> bool:
        """Return whether the client wants the batch to end."""
        return (await self.read_state()).status == "cancelling"

    async def add(self, *results: BatchedAnswer) -> None:
        """Store results durably; ignore those of requests that have one."""
        new = [result for result in results if result.custom_id not in self.done]
        await perform(self._storage.append_results, self._batch, new)
        self.done.update(result.custom_id for result in new)
        completed = sum(result.is_success for result in new)
        self._completed += completed
        self._failed += len(new) - completed
        if len(self.done) - self._written >= _COUNT_INTERVAL:
            await self._write_counts()

    async def show_progress(self, road: str, done: int) -> None:
        """Count requests that a vendor has answered, although their answers were not read."""
        if done != self._at_vendors.get(road, 0):
            self._at_vendors[road] = done
            await self._write_counts()

    async def _write_counts(self) -> None:
        async with self._lock:
            self._written = len(self.done)
            unread = min(sum(self._at_vendors.values()), self._batch.total - len(self.done))
            state = await self.read_state()
            changed = replace(state, completed=self._completed + unread, failed=self._failed)
            await perform(self._storage.write, changed)
