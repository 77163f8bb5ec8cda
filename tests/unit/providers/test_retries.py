"""A request is sent again where that may help, visibly, and never behind words."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentStartedEvent,
    NativeEvent,
    ResponseStartedEvent,
    RetryEvent,
    StreamEvent,
)
from vibe_llms.exceptions import (
    ConverseError,
    ProviderError,
    ProviderFault,
    RequestError,
    StreamTruncatedError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.contents import Native
from vibe_llms.providers.retries import RetryingSource, RetryPolicy
from vibe_llms.testing.clocks import HurriedClock

OVERLOADED = ProviderError(fault=ProviderFault.OVERLOADED)
POLICY = RetryPolicy(attempts=3, longest_seconds=60)
STARTED = [ResponseStartedEvent()]
SPOKEN = [ContentStartedEvent(index=0, kind="text"), ContentDeltaEvent(0, "hi")]


@attrs.define
class Attempts:
    """Sources that each play a list of batches or errors."""

    plays: list[list[Sequence[StreamEvent] | ConverseError | None]]
    opened: int = 0
    closed: int = 0
    clock: HurriedClock = attrs.field(factory=HurriedClock)

    def produce(self) -> Attempt:
        self.opened += 1
        return Attempt(self, self.plays.pop(0))

    def source(self, policy: RetryPolicy = POLICY) -> RetryingSource:
        return RetryingSource(self.produce, policy, clock=self.clock, draw=lambda: 0.0)


@attrs.define
class Attempt:
    """One of them."""

    attempts: Attempts
    play: list[Sequence[StreamEvent] | ConverseError | None]

    async def receive(self) -> Sequence[StreamEvent] | None:
        step = self.play.pop(0)
        if isinstance(step, ConverseError):
            raise step
        return step

    async def close(self) -> None:
        self.attempts.closed += 1


async def receive_all(source: RetryingSource) -> list[StreamEvent]:
    """Reads a source to its end."""
    events: list[StreamEvent] = []
    while (batch := await source.receive()) is not None:
        events += batch
    return events


async def test_an_error_that_may_pass_is_an_event_and_another_attempt() -> None:
    """The consumer sees the retry, its number and its cause, then the answer."""
    attempts = Attempts([[OVERLOADED], [SPOKEN, None]])

    events = await receive_all(attempts.source())

    assert events == [RetryEvent(attempt=2, after_seconds=0.5, error=OVERLOADED), *SPOKEN]
    assert (attempts.opened, attempts.closed) == (2, 1)
    assert attempts.clock.slept == [0.5]


async def test_nothing_is_repeated_once_words_have_come() -> None:
    """Behind the first content an error is an error, whatever it says of trying again."""
    attempts = Attempts([[STARTED, SPOKEN, OVERLOADED]])
    source = attempts.source()

    await source.receive()
    await source.receive()
    with pytest.raises(ProviderError):
        await source.receive()

    assert attempts.opened == 1


async def test_a_beginning_without_words_is_repeated() -> None:
    """An answer that broke off before it said anything can be asked for again."""
    ping = NativeEvent(kind="ping", native=Native(protocol="p", data="{}"))
    broken = [STARTED, [ping], StreamTruncatedError()]
    attempts = Attempts([broken, [SPOKEN, None]])

    events = await receive_all(attempts.source())

    assert [event.type for event in events][-2:] == ["content.started", "content.delta"]
    assert attempts.opened == 2


async def test_attempts_come_to_an_end() -> None:
    """The last error is raised, after as many attempts as the limit says."""
    attempts = Attempts([[OVERLOADED], [OVERLOADED], [OVERLOADED]])
    source = attempts.source()

    assert [(await source.receive())[0].type for _ in range(2)] == ["retry", "retry"]
    with pytest.raises(ProviderError):
        await source.receive()

    assert attempts.clock.slept == [0.5, 1.0]


async def test_an_error_that_stays_is_raised_at_once() -> None:
    """A request that makes no sense makes none the second time."""
    attempts = Attempts([[RequestError(detail="no")]])

    with pytest.raises(RequestError):
        await attempts.source().receive()

    assert attempts.opened == 1


def test_what_the_vendor_asks_for_is_done_or_given_up() -> None:
    """Retry-After is honoured as it stands; one beyond the limit ends the attempts."""
    soon = ProviderError(fault=ProviderFault.RATE_LIMITED, retry_after_seconds=7.5)
    late = ProviderError(fault=ProviderFault.RATE_LIMITED, retry_after_seconds=61)

    assert POLICY.decide(soon, 1, 1.0) == 7.5
    assert POLICY.decide(late, 1, 1.0) is None


def test_the_vendors_word_on_retrying_wins() -> None:
    """x-should-retry says more than the status."""
    hopeless = ProviderError(fault=ProviderFault.OVERLOADED, should_retry=False)
    hopeful = ProviderError(fault=ProviderFault.INVALID_REQUEST, should_retry=True)

    assert POLICY.decide(hopeless, 1, 0.0) is None
    assert POLICY.decide(hopeful, 1, 0.0) == 0.5


@given(st.integers(1, 40), st.integers(1, 50), st.floats(0, 1), st.floats(0.1, 100))
def test_waits_are_bounded(attempt: int, attempts: int, chance: float, longest: float) -> None:
    """No wait is longer than the limit, none is negative, and there is none after the last."""
    policy = RetryPolicy(attempts=attempts, longest_seconds=longest)

    wait = policy.decide(OVERLOADED, attempt, chance)

    assert (wait is None) == (attempt >= attempts)
    assert wait is None or 0 < wait <= min(longest, 8.0)


def test_the_policy_is_set_by_limits() -> None:
    """There is one way to set it."""
    policy = RetryPolicy.of(Limits(attempts=1, retry_seconds=5))

    assert policy == RetryPolicy(attempts=1, longest_seconds=5)


def test_whoever_never_gives_up_waits_no_longer_than_ever() -> None:
    """2.0 ** 1024 is an OverflowError, which short waits come to within minutes."""
    policy = RetryPolicy(attempts=10_000, longest_seconds=0.01)
    waits = [policy.decide(OVERLOADED, attempt, 0.0) for attempt in (1, 1_024, 1_026, 9_999)]
    assert waits == [0.01] * 4
