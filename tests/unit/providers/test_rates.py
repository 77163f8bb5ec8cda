"""Requests to a vendor keep the pace that the user sets, and that the vendor asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault, TransportError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.providers.openai_conversations.client import OpenAIVendor
from vibe_llms.providers.rates import RateLimiter, Rates, read_reset
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.settings import read_settings
from vibe_llms.testing.clocks import HurriedClock

REFUSED = ProviderError(fault=ProviderFault.RATE_LIMITED)
ANSWER = (
    b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":900,"completion_tokens":100,"total_tokens":1000}}'
)


def produce_limiter(clock: HurriedClock, **rates: int) -> RateLimiter:
    return RateLimiter(Rates(**rates), longest_seconds=60, clock=clock)


async def record(
    limiter: RateLimiter, clock: HurriedClock, count: int, tokens: float = 0.0
) -> list[float]:
    """Lets requests go one after the other; returns when each went."""
    times = []
    for _ in range(count):
        await limiter.acquire(tokens)
        times.append(round(clock.now - 1_000.0, 3))
    return times


async def test_without_a_rate_nobody_waits() -> None:
    """What is not set costs nothing."""
    clock = HurriedClock()

    assert await record(produce_limiter(clock), clock, 100) == [0.0] * 100
    assert not clock.slept


async def test_requests_are_spread_over_the_minute() -> None:
    """120 a minute are one every half second, from the first on."""
    clock = HurriedClock()

    times = await record(produce_limiter(clock, requests_per_minute=120), clock, 4)

    assert times == [0.0, 0.5, 1.0, 1.5]


async def test_time_that_passes_unused_is_not_saved_up() -> None:
    """No burst comes after a pause: vendors count short stretches, too."""
    clock = HurriedClock()
    limiter = produce_limiter(clock, requests_per_minute=60)
    await limiter.acquire(0)
    clock.now += 30

    assert await record(limiter, clock, 2) == [30.0, 31.0]


async def test_tokens_are_spread_over_the_minute() -> None:
    """A large request makes the next one wait for as long as its tokens take."""
    clock = HurriedClock()

    times = await record(produce_limiter(clock, tokens_per_minute=60_000), clock, 3, tokens=5_000)

    assert times == [0.0, 5.0, 10.0]


async def test_what_was_used_takes_the_place_of_the_estimate() -> None:
    """A request that used less gives the time back, one that used more takes it."""
    clock = HurriedClock()
    limiter = produce_limiter(clock, tokens_per_minute=60_000)
    await limiter.acquire(5_000)
    limiter.settle(5_000, used=1_000, output=500)
    await limiter.acquire(1_000)
    limiter.settle(1_000, used=4_000, output=500)

    assert await record(limiter, clock, 1) == [5.0]


async def test_estimates_learn_how_long_answers_are() -> None:
    """The size of a request says nothing of its answer; the last ones do."""
    limiter = produce_limiter(HurriedClock(), tokens_per_minute=60_000)
    before = limiter.estimate(400)
    for _ in range(50):
        limiter.settle(100, used=1_100, output=1_000)

    assert before == 100
    assert limiter.estimate(400) == pytest.approx(1_100, rel=0.01)


async def test_one_refusal_slows_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the vendor wants to be left alone nobody sends, those who wait already included."""
    clock = HurriedClock()
    limiter = produce_limiter(clock, requests_per_minute=600)
    await limiter.acquire(0)
    waiting = [asyncio.ensure_future(limiter.acquire(0)) for _ in range(3)]
    await asyncio.sleep(0)
    limiter.slow_down(ProviderError(fault=ProviderFault.RATE_LIMITED, retry_after_seconds=20))
    await asyncio.gather(*waiting)

    assert clock.now - 1_000 >= 20


async def test_after_a_refusal_requests_go_more_slowly_then_faster_again() -> None:
    """At half the rate of before, so that not all knock at once; and it grows."""
    clock = HurriedClock()
    limiter = produce_limiter(clock)
    for _ in range(100):
        await limiter.acquire(0)
    limiter.slow_down(REFUSED)
    first = await record(limiter, clock, 2)
    clock.now += 10
    later = await record(limiter, clock, 2)
    clock.now += 30
    last = await record(limiter, clock, 2)

    assert first[1] - first[0] == pytest.approx(0.02, rel=0.05)
    assert later[1] - later[0] == pytest.approx(0.02 / 1.05**10, rel=0.1)
    assert last[1] == last[0]  # as if nothing had been


async def test_refusals_of_one_moment_are_one_refusal() -> None:
    """A hundred answers that were under way do not slow the pace a hundred times."""
    clock = HurriedClock()
    limiter = produce_limiter(clock)
    for _ in range(100):
        await limiter.acquire(0)
    for _ in range(100):
        limiter.slow_down(REFUSED)

    times = await record(limiter, clock, 2)
    assert times[1] - times[0] == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize(
    "error",
    [
        TransportError(detail="gone"),
        ProviderError(fault=ProviderFault.SERVER),
        ProviderError(fault=ProviderFault.INVALID_REQUEST),
        ProviderError(fault=ProviderFault.RATE_LIMITED, retry_after_seconds=3_600),
    ],
)
async def test_other_errors_slow_nobody(error: ConverseError) -> None:
    """Nor does a vendor that asks for a longer wait than is allowed: its error tells."""
    clock = HurriedClock()
    limiter = produce_limiter(clock)
    await limiter.acquire(0)
    limiter.slow_down(error)

    assert await record(limiter, clock, 2) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2s"}, 0.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "12s"}, 12.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "12s"}, 0.0),
        ({"x-ratelimit-remaining-requests": "0"}, 0.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"}, 0.0),
        ({"content-type": "application/json"}, 0.0),
    ],
)
async def test_what_vendors_say_is_left_is_heeded(
    headers: Mapping[str, str], seconds: float
) -> None:
    """Where nothing is left, nothing is sent until it is filled up, if that is not too long."""
    clock = HurriedClock()
    limiter = produce_limiter(clock)
    limiter.learn(headers)

    assert await record(limiter, clock, 1) == [seconds]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("6m0s", 360), ("1h2m3.5s", 3723.5), ("120ms", 0.12), ("7", 7), ("0.5", 0.5), ("0s", 0)],
)
def test_times_of_filling_up_are_read(text: str, seconds: float) -> None:
    """As OpenAI writes them, and those who follow."""
    assert read_reset(text) == pytest.approx(seconds)


def test_a_moment_of_filling_up_is_read() -> None:
    """As Anthropic writes it."""
    moment = datetime.now(UTC) + timedelta(seconds=30)

    assert read_reset(moment.isoformat().replace("+00:00", "Z")) == pytest.approx(30, abs=2)
    assert read_reset("2020-01-01T00:00:00Z") == 0
    assert read_reset("2020-01-01T00:00:00") is None


@given(st.text())
def test_any_other_text_says_nothing(text: str) -> None:
    """And never raises."""
    seconds = read_reset(text)
    assert seconds is None or seconds >= 0


@examples(40)
@given(st.lists(st.sampled_from(["go", "refuse", "wait", "settle", "learn"]), max_size=60))
def test_a_pace_never_goes_faster_than_was_said(steps: list[str]) -> None:
    """Whatever happens between them, requests keep their distance."""
    clock = HurriedClock()
    limiter = produce_limiter(clock, requests_per_minute=60, tokens_per_minute=600_000)

    async def perform() -> list[float]:
        times = []
        for step in steps:
            if step == "go":
                await limiter.acquire(100)
                times.append(clock.now)
            elif step == "refuse":
                limiter.slow_down(REFUSED)
            elif step == "wait":
                clock.now += 0.4
            elif step == "settle":
                limiter.settle(100, used=50, output=10)
            else:
                limiter.learn(
                    {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2s"}
                )
        return times

    times = asyncio.run(perform())
    assert all(later - earlier > 0.999 for earlier, later in pairwise(times))


async def test_a_provider_keeps_the_rate_of_its_settings(tmp_path: Path) -> None:
    """All clients and all requests of it share one pace; what an answer used is settled."""
    counterpart = Counterpart([answer_json(ANSWER) for _ in range(4)])
    context = produce_context(
        "openai_conversations", tmp_path, api_key="x", tokens_per_minute=60_000
    )
    provider = RemoteProvider(context, OpenAIVendor)
    provider.use_transport(counterpart.transport)
    clock = HurriedClock()
    read = read_settings(context, "https://example.org")
    provider._limiter = limiter = RateLimiter(read.rates, longest_seconds=60, clock=clock)
    request = Request(canisters=[UserCanister("Hello")])
    for stream_of in range(4):
        client = provider.produce_client()
        assert client.limiter is limiter
        model = await client.access_model("m")
        await model.converse(request, stream=False)
        assert clock.now - 1_000 == pytest.approx(stream_of, abs=0.2)


async def test_a_refusal_of_one_request_holds_up_the_others(tmp_path: Path) -> None:
    """The refused one is sent again by the one policy, and takes its turn."""
    refusal: dict[str, Any] = {"status": 429, "headers": {"retry-after": "20"}}
    body = b'{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}'
    counterpart = Counterpart([answer_json(body, **refusal), answer_json(ANSWER)])
    limits = Limits(attempts=1)
    context = produce_context("openai_conversations", tmp_path, api_key="x", limits=limits)
    provider = RemoteProvider(context, OpenAIVendor)
    provider.use_transport(counterpart.transport)
    clock = HurriedClock()
    provider._limiter = RateLimiter(Rates(), longest_seconds=60, clock=clock)
    model = await provider.produce_client().access_model("m")
    request = Request(canisters=[UserCanister("Hello")])

    with pytest.raises(ProviderError):
        await model.converse(request, stream=False)
    other = await provider.produce_client().access_model("m")
    await other.converse(request, stream=False)

    assert clock.now - 1_000 == pytest.approx(20)


async def test_who_leaves_while_waiting_gives_the_turn_back() -> None:
    """However many come and go: whoever comes next waits as if they had not been there."""

    class StoppedClock(HurriedClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.Event().wait()

    clock = StoppedClock()
    limiter = produce_limiter(clock, requests_per_minute=60, tokens_per_minute=60)
    await limiter.acquire(1)
    waiting = [asyncio.create_task(limiter.acquire(1)) for _ in range(20)]
    await asyncio.sleep(0)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

    clock.now += 1
    async with asyncio.timeout(60):
        await limiter.acquire(1)
