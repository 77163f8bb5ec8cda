"""A gateway with a file: who is asked, who else where that one fails, and what clients hear."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from support.gateways.gateway_files import GatewayAnswer, RoutedGateway, hold_answers
from support.gateways.gateways import wait_until
from vibe_llms.foundation.clocks import Clock
from vibe_llms.testing.simulator import Say, Simulator, Think

BOTH = '[models.quick]\ntargets = ["first:gpt-5.5"]\nfallback = ["second:gpt-5.5"]\n'


def stop_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Has time stand still; returns when it is, which a test may change."""
    now = [time.monotonic()]
    monkeypatch.setattr(Clock, "read", lambda _: now[0])
    return now


@pytest.fixture
async def routed(tmp_path: Path) -> AsyncIterator[RoutedGateway]:
    """A gateway that does not run yet."""
    async with Simulator() as first, Simulator() as second:
        yield RoutedGateway(tmp_path, first, second)


async def test_a_name_leads_to_its_target(routed: RoutedGateway) -> None:
    async with routed.run('[models.quick]\ntargets = ["first:gpt-5.5"]\n'):
        routed.first.enqueue(Say("The North Sea."))
        client = openai.AsyncOpenAI(base_url=f"{routed.address}/v1", api_key="x", max_retries=0)
        async with client:
            answer = await client.chat.completions.create(
                model="quick", messages=[{"role": "user", "content": "A sea?"}]
            )
            listed = [model.id async for model in client.models.list()]

            with pytest.raises(openai.NotFoundError):
                await client.chat.completions.create(
                    model="first:gpt-5.5", messages=[{"role": "user", "content": "A sea?"}]
                )
    assert answer.choices[0].message.content == "The North Sea."
    assert listed == ["quick"]
    assert [each.body["model"] for each in routed.first.requests] == ["gpt-5.5"]


EVERYWHERE = [
    ("server_error", "500 server"),
    ("overloaded", "overloaded"),
    ("rate_limit", "429 rate-limited"),
    ("drop_connection_before_headers", "transport (may be billed)"),
]
IN_STREAMS = [
    ("midstream_overloaded=0", "overloaded (may be billed)"),
    ("cut_at_chunk=0", "transport (may be billed)"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stream", "fault", "told"),
    [(stream, *case) for stream in (False, True) for case in EVERYWHERE]
    + [(True, *case) for case in IN_STREAMS],
)
async def test_the_next_target_answers_where_one_fails(
    routed: RoutedGateway, stream: bool, fault: str, told: str
) -> None:
    async with routed.run(BOTH):
        routed.first.switch(fault)
        answer = await routed.ask(stream=stream)
    assert answer.status == 200, answer.body
    attempts = json.loads(answer.headers["x-vibe-attempts"])
    assert len(attempts) == 2
    assert attempts[0].startswith("first:gpt-5.5: ")
    assert told in attempts[0]
    assert attempts[1] == "second:gpt-5.5"
    [record] = routed.records
    assert record.address == "second:gpt-5.5"
    assert [each.address for each in record.attempts] == ["first:gpt-5.5", "second:gpt-5.5"]
    assert record.usage is None or record.usage.output_tokens


@pytest.mark.slow
async def test_a_fallback_may_speak_another_protocol(routed: RoutedGateway) -> None:
    tables = '[models.quick]\ntargets = ["first:gpt-5.5"]\nfallback = ["big"]\n'
    tables += '[models.big]\ntargets = ["claude:claude-opus-4-5"]\n'
    async with routed.run(tables):
        routed.first.switch("server_error")
        routed.second.enqueue(Say("The Baltic Sea."))
        answer = await routed.ask()
    assert b"Baltic" in answer.body
    assert routed.records[0].way == "translate"


async def test_a_time_out_is_one_too(routed: RoutedGateway) -> None:
    tables = BOTH.replace('"first:gpt-5.5"', '{ model = "first:gpt-5.5", seconds = 0.2 }')
    async with routed.run(tables):
        routed.first.switch("slow=60000")
        answer = await routed.ask()
        [first, _] = routed.records[0].attempts
    assert answer.status == 200
    assert (first.error, first.may_be_billed) == ("transport-timeout", True)


@pytest.mark.slow
async def test_what_has_begun_in_time_may_take_its_time(routed: RoutedGateway) -> None:
    tables = BOTH.replace('"first:gpt-5.5"', '{ model = "first:gpt-5.5", seconds = 1 }')
    async with routed.run(tables):
        routed.first.enqueue(Say("one two three four five six seven eight"), simulate="slow=200")
        answer = await routed.ask(stream=True)
    assert b"[DONE]" in answer.body
    assert routed.records[0].seconds > 1
    assert routed.second.requests == []


async def test_a_vendor_that_has_nothing_left_is_passed_over(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        heard.append(request.path)
        told = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}
        message = {"role": "assistant", "content": "The North Sea."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = {"id": "c", "object": "chat.completion", "choices": [choice]}
        return web.json_response(body, headers=told)

    heard: list[str] = []
    application = web.Application()
    application.router.add_post("/v1/chat/completions", answer)
    async with TestServer(application) as server, Simulator() as second:
        url = str(server.make_url("")).rstrip("/")
        routed = RoutedGateway(tmp_path, Simulator(), second, url=url)
        async with routed.run(BOTH):
            for _ in range(3):
                assert (await routed.ask()).status == 200
    assert len(heard) == 1
    assert len(second.requests) == 2
    assert [each.attempts[0].error for each in routed.records] == ["", *["rate-limited"] * 2]


async def test_an_overlong_context_goes_to_the_next_that_takes_more(routed: RoutedGateway) -> None:
    larger = '"second:gpt-4o", "second:gpt-4.1"'
    async with routed.run(f'[models.quick]\ntargets = ["first:gpt-4o"]\nfallback = [{larger}]\n'):
        routed.first.switch("context_overflow")
        answer = await routed.ask()
    assert answer.status == 200
    assert "context-overflow" in answer.headers["x-vibe-attempts"]
    assert [each.body["model"] for each in routed.second.requests] == ["gpt-4.1"]


async def test_what_is_wrong_with_a_request_is_told_at_once(routed: RoutedGateway) -> None:
    async with routed.run(BOTH):
        answer = await routed.ask(messages=[{"role": "nobody", "content": "A sea?"}])
    assert answer.status == 400
    assert routed.second.requests == []


async def test_nothing_is_asked_again_behind_the_first_byte(routed: RoutedGateway) -> None:
    async with routed.run(BOTH):
        routed.first.enqueue(Say("one two three four five six"), simulate="cut_at_chunk=2")
        with pytest.raises(aiohttp.ClientPayloadError):
            await routed.ask(stream=True)
        await wait_until(lambda: routed.records)
    assert routed.second.requests == []
    assert routed.records[0].error


async def test_the_last_error_is_told_as_it_came(routed: RoutedGateway) -> None:
    async with routed.run(BOTH):
        routed.first.switch("server_error")
        routed.second.switch("rate_limit")
        answer = await routed.ask()
    assert answer.status == 429
    assert answer.headers["retry-after"] == "1"
    assert b"too many requests" in answer.body
    assert len(json.loads(answer.headers["x-vibe-attempts"])) == 2


async def test_a_vendor_that_says_when_is_let_alone_until_then(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_clock(monkeypatch)
    async with routed.run('[models.quick]\ntargets = ["first:gpt-5.5"]\n'):
        routed.first.switch("rate_limit=1")
        first = await routed.ask()
        second = await routed.ask()
    assert (first.status, second.status) == (429, 429)
    assert len(routed.first.requests) == 1
    assert second.headers["retry-after"] == "1"
    assert json.loads(second.body)["error"]["code"]


async def test_a_target_that_fails_is_let_alone_and_tried_again(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = stop_clock(monkeypatch)
    tables = BOTH + "circuit = { failures = 2, pause_seconds = 30 }\n"
    async with routed.run(tables):
        routed.first.switch("server_error=2")
        for _ in range(4):
            assert (await routed.ask()).status == 200
        assert len(routed.first.requests) == 2
        assert [each.error for each in routed.records[-1].attempts] == ["circuit", ""]
        now[0] += 30
        assert (await routed.ask()).status == 200
        assert len(routed.first.requests) == 3
        assert (await routed.ask()).headers.get("x-vibe-attempts") is None


async def test_more_than_its_queue_takes_goes_on_or_is_refused(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over, ended = hold_answers(monkeypatch), list[int]()

    async def ask() -> GatewayAnswer:
        answer = await routed.ask()
        ended.append(answer.status)
        return answer

    target = '{ model = "first:gpt-5.5", concurrency = 1, queue = 1 }'
    async with routed.run(f"[models.quick]\ntargets = [{target}]\n"):
        asking = asyncio.gather(*(ask() for _ in range(4)))
        await wait_until(lambda: ended == [503, 503])
        is_over.set()
        answers = await asking
    assert sorted(answer.status for answer in answers) == [200, 200, 503, 503]
    refused = next(answer for answer in answers if answer.status == 503)
    assert refused.headers["retry-after"] == "1"
    assert "quick" in json.loads(refused.body)["error"]["message"]


async def test_clients_of_anthropic_hear_of_it_in_its_words(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = hold_answers(monkeypatch)
    target = '{ model = "claude:claude-opus-4-5", concurrency = 1 }'
    async with routed.run(f"[models.quick]\ntargets = [{target}]\n"):
        client = anthropic.AsyncAnthropic(base_url=routed.address, api_key="x", max_retries=0)

        async def ask() -> object:
            return await client.messages.create(
                model="quick", max_tokens=10, messages=[{"role": "user", "content": "A sea?"}]
            )

        async with client:
            answered = asyncio.create_task(ask())
            await wait_until(lambda: routed.second.requests)
            with pytest.raises(anthropic.APIStatusError) as caught:
                await ask()
            is_over.set()
            await answered
    refused = caught.value
    assert refused.status_code == 503
    assert refused.body["error"]["type"] in ("overloaded_error", "api_error")  # type: ignore[index,call-overload]


async def test_weights_share_the_requests_out(routed: RoutedGateway) -> None:
    targets = '{ model = "first:gpt-5.5", weight = 3 }, "second:gpt-5.5"'
    async with routed.run(f"[models.quick]\ntargets = [{targets}]\n"):
        for _ in range(60):
            await routed.ask()
    assert len(routed.first.requests) + len(routed.second.requests) == 60
    assert routed.first.requests
    assert routed.second.requests  # but once in 30 million runs


async def converse(
    routed: RoutedGateway, turns: list[dict[str, Any]]
) -> tuple[int, dict[str, Any]]:
    """Asks in Messages, with thinking."""
    body = {"model": "quick", "max_tokens": 2000, "messages": turns}
    body["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    async with routed.session.post(f"{routed.address}/v1/messages", json=body) as answer:
        return answer.status, await answer.json()


SEALED = {"type": "thinking", "thinking": "Which one?", "signature": "c2VhbGVk"}
USER = {"role": "user", "content": "A sea?"}
TWO_VENDORS = '[models.quick]\ntargets = ["claude:claude-opus-4-5", "claudia:claude-opus-4-5"]\n'


async def test_what_a_vendor_has_sealed_goes_back_to_it(routed: RoutedGateway) -> None:
    async with routed.run(TWO_VENDORS):
        routed.first.enqueue(Think("Which one?"), Say("The North Sea."))
        routed.second.enqueue(Think("Which one?"), Say("The North Sea."))
        _, heard = await converse(routed, [USER])
        home = routed.first if routed.first.requests else routed.second
        other = routed.second if home is routed.first else routed.first
        turns = [USER, {"role": "assistant", "content": heard["content"]}, USER]
        for _ in range(12):
            assert (await converse(routed, turns))[0] == 200
        assert other.requests == []
        home.switch("server_error=1")
        assert (await converse(routed, turns))[0] == 500  # nobody else could read it
    assert other.requests == []


async def test_whose_seal_it_is_that_nobody_remembers_is_tried_out(routed: RoutedGateway) -> None:
    said = [SEALED, {"type": "text", "text": "The North Sea."}]
    tables = '[models.quick]\ntargets = ["first:gpt-5.5"]\nfallback = ["claude:claude-opus-4-5"]\n'
    async with routed.run(tables):
        status, _ = await converse(routed, [USER, {"role": "assistant", "content": said}, USER])
    [record] = routed.records
    # Whoever speaks the protocol comes first: any other would have to leave it out.
    assert [each.address for each in record.attempts] == [
        "claude:claude-opus-4-5",
        "first:gpt-5.5",
    ]
    assert status == 200
    assert any("signature" in str(loss) or "thinking" in str(loss) for loss in record.losses), (
        record.losses
    )
