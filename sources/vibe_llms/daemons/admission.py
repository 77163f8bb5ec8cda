"""Who is answered now, who waits for a turn, and who is told to come again."""

from __future__ import annotations

import asyncio

from vibe_llms.exceptions import LimitError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.semaphores import Slots
from vibe_llms.tables.annotations import Amount, Count, Seconds


@frozen(kw_only=True)
class ServiceLimits:
    """What a daemon takes on at once.

    Attributes:
        request_bytes: The body of one request.
        request_values: How many values the JSON of one may have.
        requests: How many are answered at once, in one process.
        waiting_requests: How many wait for their turn behind these.
        waiting_seconds: How long one waits for its turn.
        total_seconds: How long one request may take, from its arrival to the end of its answer.
    """

    request_bytes: Count = 67_108_864
    request_values: Count = 250_000
    requests: Count = 4096
    waiting_requests: Amount = 4096
    waiting_seconds: Seconds = 60.0
    total_seconds: Seconds = 7_200.0


class Admission(Slots):
    """Lets those be answered for whom there is room, and the others wait in their order."""

    def __init__(self, limits: ServiceLimits) -> None:
        super().__init__(limits.requests)
        self._limits = limits

    def adopt(self, limits: ServiceLimits) -> None:
        """Lets other limits hold from now on; who has a place keeps it."""
        self._limits = limits
        self.resize(limits.requests)

    async def take(self) -> None:
        """Takes a place, when there is one. Raises LimitError where too many or too long wait."""
        if self.enter():
            return
        if self.waiting >= self._limits.waiting_requests:
            raise _refuse_admission("waiting_requests", self._limits.waiting_requests)
        try:
            async with asyncio.timeout(self._limits.waiting_seconds):
                await super().take()
        except TimeoutError as error:
            raise _refuse_admission("requests", self._limits.requests) from error


def _refuse_admission(limit: str, value: int) -> LimitError:
    return LimitError(
        detail=f"More is asked here than {limit} = {value:,} allows.",
        remedy="Ask again later.",
        limit=limit,
        value=value,
        stage=Stage.EXECUTE,
    )
