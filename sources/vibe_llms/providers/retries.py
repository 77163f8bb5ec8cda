"""Retry policy: visible, bounded, and never after content was received.

The transport never retries, and the retries of official libraries are turned off. Only this module
sends a request again: one that failed before any content, and whose error says that a retry may
help. Each retry is reported as an event. A tool is never executed twice by a retry, since tools
only run after an answer is complete.
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
from vibe_llms.foundation.clocks import Clock, compute_backoff
from vibe_llms.foundation.limits import Limits
from vibe_llms.providers.streams import EventSource, detach

_T = TypeVar("_T")

_FIRST_SECONDS = 0.5
_LAST_SECONDS = 8.0
"""The waits double from the first to the last if the vendor names none, as in the official
libraries of OpenAI and Anthropic.
"""

_BEFORE_CONTENT = (LossEvent, NativeEvent, ResponseStartedEvent, UsageEvent)
"""Events of an answer after which a retry is possible."""


def _precedes_content(event: StreamEvent) -> bool:
    # After a retry by a gateway in between, there is none here; a new connection is not a retry.
    is_reconnection = isinstance(event, RetryEvent) and event.resumes
    return is_reconnection or isinstance(event, _BEFORE_CONTENT)


@frozen(kw_only=True)
class RetryPolicy:
    """The number and times of retries.

    Attributes:
        attempts: Maximum attempts, including the first one.
        longest_seconds: If a vendor asks for a longer wait, there is no retry.
    """

    attempts: int
    longest_seconds: float

    @classmethod
    def of(cls, limits: Limits) -> RetryPolicy:
        """Return the policy for the limits ``attempts`` and ``retry_seconds``."""
        return cls(attempts=limits.attempts, longest_seconds=limits.retry_seconds)

    def decide(self, error: ConverseError, attempt: int, jitter: float) -> float | None:
        """Return the seconds to wait before the next attempt; ``None`` to give up.

        Args:
            error: The error of the attempt.
            attempt: Its number, from 1.
            jitter: From 0 to 1; shortens the wait by up to a quarter, so that clients do not all
                retry at once.
        """
        if not error.is_retryable or attempt >= self.attempts:
            return None
        requested_seconds: float | None = None
        if isinstance(error, AccessError | ProviderError):
            requested_seconds = error.retry_after_seconds
        if requested_seconds is not None:
            return requested_seconds if requested_seconds <= self.longest_seconds else None
        longest = min(_LAST_SECONDS, self.longest_seconds)
        wait = compute_backoff(_FIRST_SECONDS, attempt - 1, longest)
        return wait * (1 - 0.25 * jitter)


async def repeat(
    send: Callable[[], Awaitable[_T]],
    policy: RetryPolicy,
    clock: Clock,
    draw: Callable[[], float] = random.random,
    on_retry: Callable[[int, float, ConverseError], None] | None = None,
) -> _T:
    """Call a function, and repeat it after errors as the policy allows. Raises ConverseError.

    Args:
        on_retry: Called before each wait with the number of the next attempt, the seconds, and the
            error.
    """
    attempt = 1
    while True:
        try:
            return await send()
        except ConverseError as error:
            wait = policy.decide(error, attempt, draw())
            if wait is None:
                raise
            attempt += 1
            if on_retry is not None:
                on_retry(attempt, wait, error)
        await clock.sleep(wait)


class RetryingSource:
    """An event source that opens another one if the first fails before any content.

    Args:
        produce_source: Makes a source that sends the request when it is first read.
        source: The first source, if it exists already.
        policy: Decides whether and when to retry.
        clock: Waits.
        draw: Returns the jitter, from 0 to 1.
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
        """Return the next events, at least one; ``None`` at the end. Raises ConverseError."""
        if self._wait is not None:
            # Wait only now, as the reader has received the event that reports the wait.
            wait, self._wait = self._wait, None
            await self._clock.sleep(wait)
            self._source = self._produce_source()
        try:
            events = await self._source.receive()
        except ConverseError as error:
            return [await self._prepare_retry(error)]
        if events is None or not all(map(_precedes_content, events)):
            # There are no retries after the first output, so read the source directly.
            self.receive = self._source.receive  # type: ignore[method-assign]
        return events

    @property
    def is_spent(self) -> bool:
        """True if there is nothing to release."""
        return self._wait is None and getattr(self._source, "is_spent", False)

    def detach(self, when: Callable[[], bool]) -> None:
        """Let the vendor continue a response in the background."""
        detach(self._source, when)

    async def close(self) -> None:
        """Stop the request."""
        await self._source.close()

    async def _prepare_retry(self, error: ConverseError) -> RetryEvent:
        wait = self._policy.decide(error, self._attempt, self._draw())
        if wait is None or error.response_id:  # the vendor may still complete the response
            raise error
        # Close the source before the wait, during which the connection would be idle.
        await self._source.close()
        self._attempt += 1
        self._wait = wait
        return RetryEvent(attempt=self._attempt, after_seconds=wait, error=error)
