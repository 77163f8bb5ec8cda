"""Who is answered now, who waits for a turn, and who is told to come again."""

from __future__ import annotations

import asyncio
from collections import deque

from vibe_llms.exceptions import LimitError, Stage
from vibe_llms.tables.annotations import Amount, Count, Seconds
from vibe_llms.values import frozen


@frozen(kw_only=True)
class ServiceLimits:
    """What a daemon takes on at once.

    Attributes:
        request_bytes: The body of one request.
        requests: How many are answered at once, in one process.
        waiting_requests: How many wait for their turn behind these.
        waiting_seconds: How long one waits for its turn.
        total_seconds: How long one request may take, from its arrival to the end of its answer.
    """

    request_bytes: Count = 67_108_864
    requests: Count = 4096
    waiting_requests: Amount = 4096
    waiting_seconds: Seconds = 60.0
    total_seconds: Seconds = 7_200.0


class Admission:
    """Counts who is answered, and lets the others wait in their order."""

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.busy_count = 0

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def adopt(self, limits: ServiceLimits) -> None:
        """Lets other limits hold from now on; who has a place keeps it."""
        self._limits = limits
        while self._waiting and self.busy_count < limits.requests:
            self.busy_count += 1
            self.leave()

    def enter(self) -> bool:
        """Takes a place, if one is free and nobody waits for it."""
        if self.busy_count >= self._limits.requests or self._waiting:
            return False
        self.busy_count += 1
        return True

    async def wait(self) -> None:
        """Waits for a place, and takes it. Raises LimitError where too many or too long wait."""
        if len(self._waiting) >= self._limits.waiting_requests:
            raise _refuse_admission("waiting_requests", self._limits.waiting_requests)
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout(self._limits.waiting_seconds):
                await place
        except TimeoutError as error:
            self._forget(place)
            raise _refuse_admission("requests", self._limits.requests) from error
        except asyncio.CancelledError:
            self._forget(place)
            raise

    def _forget(self, place: asyncio.Future[None]) -> None:
        if place.done() and not place.cancelled():
            self.leave()  # it was given one at the last moment, and hands it on
        elif place in self._waiting:
            self._waiting.remove(place)

    def leave(self) -> None:
        """Gives a place back, to whoever has waited for it longest."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.busy_count -= 1


def _refuse_admission(limit: str, value: int) -> LimitError:
    return LimitError(
        detail=f"More is asked here than {limit} = {value:,} allows.",
        remedy="Ask again later.",
        limit=limit,
        value=value,
        stage=Stage.EXECUTE,
    )
