"""A gateway that keeps answers, and lets equal requests wait for one another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest

from support.gateways.authorizers import FriendAuthorizer
from support.gateways.gateway_files import RoutedGateway, hold_answers
from support.gateways.gateways import wait_until
from vibe_llms.testing.simulator import Say, Simulator

CACHED = '[models.quick]\ntargets = ["first:gpt-5.5"]\ncache = { seconds = 600 }\n'
FLOWN = '[models.quick]\ntargets = ["first:gpt-5.5"]\nsingle_flight = true\n'


@pytest.fixture
async def routed(tmp_path: Path) -> AsyncIterator[RoutedGateway]:
    """A gateway that does not run yet."""
    async with Simulator() as first, Simulator() as second:
        yield RoutedGateway(tmp_path, first, second)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_equal_request_is_answered_equally(routed: RoutedGateway, stream: bool) -> None:
    async with routed.run(CACHED):
        routed.first.enqueue(Say("The North Sea, and some more words."))
        first = await routed.ask(stream=stream)
        second = await routed.ask(stream=stream)
        third = await routed.ask(stream=not stream)
    assert [each.headers["x-vibe-cache"] for each in (first, second, third)] == [
        "miss",
        "hit",
        "miss",
    ]
    assert first.body == second.body
    assert first.headers["content-type"] == second.headers["content-type"]
    assert first.headers["x-vibe-request-id"] != second.headers["x-vibe-request-id"]
    assert len(routed.first.requests) == 2
    assert [each.cache for each in routed.records] == ["miss", "hit", "miss"]
    assert routed.records[1].usage is None


async def test_an_official_client_reads_a_stream_that_was_kept(routed: RoutedGateway) -> None:
    async with routed.run(CACHED):
        routed.first.enqueue(Say("The North Sea."))
        client = openai.AsyncOpenAI(base_url=f"{routed.address}/v1", api_key="x", max_retries=0)
        heard = []
        async with client:
            for _ in range(2):
                stream = await client.chat.completions.create(
                    model="quick", messages=[{"role": "user", "content": "A sea?"}], stream=True
                )
                texts = [
                    choice.delta.content or "" async for chunk in stream for choice in chunk.choices
                ]
                heard.append("".join(texts))
    assert heard == ["The North Sea."] * 2
    assert len(routed.first.requests) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 0.5},
        {"messages": [{"role": "user", "content": "Another?"}]},
        {"stream_options": {"include_usage": True}},
        {"metadata": {"a": "b"}},
        {"unheard_of": 1},
    ],
)
async def test_a_request_that_differs_is_another(
    routed: RoutedGateway, fields: dict[str, object]
) -> None:
    async with routed.run(CACHED):
        await routed.ask(stream=True)
        answer = await routed.ask(stream=True, **fields)
    assert answer.headers["x-vibe-cache"] == "miss"


@pytest.mark.parametrize("fault", ["server_error", "rate_limit", "no_terminator", "cut_at_chunk=2"])
async def test_nothing_is_kept_that_is_no_whole_answer(routed: RoutedGateway, fault: str) -> None:
    async with routed.run(CACHED):
        routed.first.switch(fault)
        await asyncio.gather(routed.ask(stream=True), return_exceptions=True)
        await wait_until(lambda: routed.records)
        assert routed.records[0].cache == "miss"
        routed.first.switch("")
        answer = await routed.ask(stream=True)
    assert answer.headers["x-vibe-cache"] == "miss"


async def test_who_asks_for_it_is_neither_kept_nor_given_what_is(routed: RoutedGateway) -> None:
    async with routed.run(CACHED):
        for _ in range(2):
            answer = await routed.ask({"cache-control": "no-store"})
            assert "x-vibe-cache" not in answer.headers
        await routed.ask()
        assert (await routed.ask({"cache-control": "no-cache"})).headers["x-vibe-cache"] == "miss"
        assert (await routed.ask()).headers["x-vibe-cache"] == "hit"
    assert len(routed.first.requests) == 4


async def test_equal_requests_at_once_are_sent_once(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = hold_answers(monkeypatch)
    async with routed.run(FLOWN):
        asking = asyncio.gather(*(routed.ask() for _ in range(5)))
        await wait_until(lambda: routed.service.busy_count == 5 and routed.first.requests)
        is_over.set()
        heard = await asking
        assert len(routed.first.requests) == 1
        later = await routed.ask()
    assert len({each.body for each in heard}) == 1
    assert sorted(each.headers["x-vibe-cache"] for each in heard) == ["hit"] * 4 + ["miss"]
    assert later.headers["x-vibe-cache"] == "miss"


async def test_nobody_waits_where_that_is_not_switched_on(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = hold_answers(monkeypatch)
    async with routed.run(CACHED):
        asking = asyncio.gather(routed.ask(), routed.ask())
        await wait_until(lambda: len(routed.first.requests) == 2)
        is_over.set()
        await asking


async def test_who_waited_for_one_that_left_asks_itself(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = hold_answers(monkeypatch)
    async with routed.run(FLOWN):
        leader = asyncio.create_task(routed.ask())
        await wait_until(lambda: routed.first.requests)
        follower = asyncio.create_task(routed.ask())
        await wait_until(lambda: routed.service.busy_count == 2)
        leader.cancel()
        await wait_until(lambda: len(routed.first.requests) == 2)
        is_over.set()
        answer = await follower
    assert (answer.status, answer.headers["x-vibe-cache"]) == (200, "miss")
    assert len(routed.first.requests) == 2


async def test_who_may_not_ask_gets_nothing_that_is_kept(routed: RoutedGateway) -> None:
    authorizer = FriendAuthorizer()
    async with routed.run(CACHED, authorizer=authorizer):
        for _ in range(3):
            assert (await routed.ask({"authorization": "Bearer friend"})).status == 200
        refused = await routed.ask({"authorization": "Bearer stranger"})
    assert refused.status == 403
    assert authorizer.calls == ["reserve", "settle"]


async def test_each_attempt_is_accounted_for(routed: RoutedGateway) -> None:
    authorizer = FriendAuthorizer()
    tables = '[models.quick]\ntargets = ["first:gpt-5.5"]\nfallback = ["second:gpt-5.5"]\n'
    async with routed.run(tables, authorizer=authorizer):
        routed.first.switch("drop_connection_before_headers")
        assert (await routed.ask({"authorization": "Bearer friend"})).status == 200
        assert authorizer.calls == ["reserve", "settle unknown", "reserve", "settle"]
        assert (await routed.ask({"authorization": "Bearer friend"})).status == 429
