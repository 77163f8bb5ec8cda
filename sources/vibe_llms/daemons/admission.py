"""Admission control: limits on concurrent and queued requests."""

from __future__ import annotations

import asyncio

from vibe_llms.exceptions import LimitError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.semaphores import Semaphore
from vibe_llms.tables.annotations import Amount, Count, Seconds


@frozen(kw_only=True)
class ServiceLimits:
    """Limits on concurrent requests and their size.

    Attributes:
        request_bytes: Maximum size of one request body.
        request_values: Maximum number of JSON values in one body.
        requests: Maximum number of requests that one process answers at once.
        waiting_requests: Maximum number of queued requests.
        waiting_seconds: Longest time in the queue.
        total_seconds: Longest time from the arrival of a request to the end of its response.
    """

    request_bytes: Count = 67_108_864
    request_values: Count = 250_000
    requests: Count = 4096
    waiting_requests: Amount = 4096
    waiting_seconds: Seconds = 60.0
    total_seconds: Seconds = 7_200.0


class Admission(Semaphore):
    """Semaphore with a bounded first-in, first-out queue."""

    def __init__(self, limits: ServiceLimits) -> None:
        super().__init__(limits.requests)
        self._limits = limits

    def adopt(self, limits: ServiceLimits) -> None:
        """Change the limits; requests under way are not affected."""
        self._limits = limits
        self.resize(limits.requests)

    async def acquire(self) -> None:
        """Take a slot, waiting if none is free. Raises LimitError if the queue is full or slow."""
        if self.try_acquire():
            return
        if self.waiting >= self._limits.waiting_requests:
            raise _refuse_admission("waiting_requests", self._limits.waiting_requests)
        try:
            async with asyncio.timeout(self._limits.waiting_seconds):
                await super().acquire()
        except TimeoutError as error:
            raise _refuse_admission("requests", self._limits.requests) from error


def _refuse_admission(limit: str, value: int) -> LimitError:
    return LimitError(
        detail=f"Too many requests: {limit} = {value:,} is reached.",
        remedy="Try again later.",
        limit=limit,
        value=value,
        stage=Stage.EXECUTE,
    )
