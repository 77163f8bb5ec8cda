"""The one policy by which a request is sent again: visible, bounded, and never behind words.

The wire never repeats anything, and official libraries have their own retries switched off.
Here a request that failed before anything of an answer had come is sent again, if its error
says that this may help. Each time is an event; what a tool did is never repeated, for tools run
after an answer.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from vibe_llms.events.stream import (
    LossEvent,
    NativeEvent,
    ResponseStartedEvent,
    RetryEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import AccessError, ConverseError, ProviderError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.clocks import Clock, double
from vibe_llms.foundation.limits import Limits
from vibe_llms.providers.streams import EventSource

_T = TypeVar("_T")

_FIRST_SECONDS = 0.5
_LAST_SECONDS = 8.0
"""The waits double from the first to the last where the vendor names none, as in the official
libraries of OpenAI and Anthropic."""

_BEFORE_CONTENT = (LossEvent, NativeEvent, ResponseStartedEvent, UsageEvent)
"""What may have been delivered of an answer that is asked for again."""


@frozen(kw_only=True)
class RetryPolicy:
    """How often and when a request is sent again.

    Attributes:
        attempts: How often it may be sent, the first time included.
        longest_seconds: A vendor that asks to wait longer is not asked again.
    """

    attempts: int
    longest_seconds: float

    @classmethod
    def of(cls, limits: Limits) -> RetryPolicy:
        """Returns the policy that the limits ``attempts`` and ``retry_seconds`` amount to."""
        return cls(attempts=limits.attempts, longest_seconds=limits.retry_seconds)

    def decide(self, error: ConverseError, attempt: int, chance: float) -> float | None:
        """Returns how many seconds to wait before the next attempt; None to give up.

        Args:
            error: What ended the attempt.
            attempt: Its number, from 1.
            chance: From 0 to 1, spreads the waits of many clients by up to a quarter.
        """
        if not error.is_retryable or attempt >= self.attempts:
            return None
        asked: float | None = None
        if isinstance(error, AccessError | ProviderError):
            asked = error.retry_after_seconds
        if asked is not None:
            return asked if asked <= self.longest_seconds else None
        longest = min(_LAST_SECONDS, self.longest_seconds)
        wait = double(_FIRST_SECONDS, attempt - 1, longest)
        return wait * (1 - 0.25 * chance)


async def repeat(
    ask: Callable[[], Awaitable[_T]],
    policy: RetryPolicy,
    clock: Clock,
    draw: Callable[[], float] = random.random,
) -> _T:
    """Asks something that may be asked again, as often as the policy says. Raises ConverseError."""
    attempt = 1
    while True:
        try:
            return await ask()
        except ConverseError as error:
            wait = policy.decide(error, attempt, draw())
            if wait is None:
                raise
        attempt += 1
        await clock.sleep(wait)


class RetryingSource:
    """An event source that opens another where one fails before it brought any content.

    Args:
        produce_source: Makes a source that sends the request when it is first read.
        source: The first one, where it is there already.
        policy: Decides whether and when.
        clock: Waits.
        draw: Gives the chance, from 0 to 1, that spreads the waits.
    """

    def __init__(
        self,
        produce_source: Callable[[], EventSource],
        policy: RetryPolicy,
        *,
        clock: Clock,
        draw: Callable[[], float] = random.random,
        source: EventSource | None = None,
    ) -> None:
        self._produce_source = produce_source
        self._policy = policy
        self._clock = clock
        self._draw = draw
        self._source = produce_source() if source is None else source
        self._attempt = 1
        self._wait: float | None = None

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Returns the next events, at least one; None at the end. Raises ConverseError."""
        if self._wait is not None:
            # Only now, when whoever reads has been told of the wait.
            wait, self._wait = self._wait, None
            await self._clock.sleep(wait)
            self._source = self._produce_source()
        try:
            events = await self._source.receive()
        except ConverseError as error:
            return [await self._prepare_retry(error)]
        if events is None or not all(isinstance(event, _BEFORE_CONTENT) for event in events):
            # From here on there is nothing to be repeated, and nothing between the two.
            self.receive = self._source.receive  # type: ignore[method-assign]
        return events

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left to be freed."""
        return self._wait is None and getattr(self._source, "is_spent", False)

    async def close(self) -> None:
        """Stops what is under way."""
        await self._source.close()

    async def _prepare_retry(self, error: ConverseError) -> RetryEvent:
        wait = self._policy.decide(error, self._attempt, self._draw())
        if wait is None:
            raise error
        # Closed before the wait, in which its connection is of no use to anybody.
        await self._source.close()
        self._attempt += 1
        self._wait = wait
        return RetryEvent(attempt=self._attempt, after_seconds=wait, error=error)
