"""The same protocol on both sides of the gateway: official clients hear what the upstream says."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from yarl import URL

from support.gateways.gateways import produce_application, serve_gateway
from support.network.wire_servers import Connection, serve
from vibe_llms.daemons.records import CallRecord
from vibe_llms.testing.simulator import Invoke, Say, ScriptedAnswer, Simulator

MADE_UP = re.compile(rb'"(call_|chatcmpl-)\w+"|"created":\s*\d+')
"""What the simulator says otherwise each time."""


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """What stands behind the gateway."""
    async with Simulator() as running:
        yield running


@pytest.fixture
def records() -> list[CallRecord]:
    """What the gateway tells of requests."""
    return []


@pytest.fixture
async def address(
    simulator: Simulator, tmp_path: Path, records: list[CallRecord]
) -> AsyncIterator[str]:
    """A gateway before the simulator."""
    application = produce_application(tmp_path, simulator.url)
    async with serve_gateway(application, records) as running:
        yield running


def produce_client(address: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="sk-client", max_retries=0)


async def test_a_whole_answer_arrives_as_it_was_sent(
    simulator: Simulator, address: str, records: list[CallRecord]
) -> None:
    simulator.enqueue(Say("The North Sea."))
    async with produce_client(address) as client:
        answer = await client.chat.completions.create(
            model="openai_conversations:gpt-5.5",
            messages=[{"role": "user", "content": "Name a sea."}],
        )
    assert answer.choices[0].message.content == "The North Sea."
    [asked] = simulator.requests
    assert asked.body["model"] == "gpt-5.5"
    assert asked.headers["authorization"] == "Bearer sk-upstream-openai_conversations"
    [record] = records
    assert (record.way, record.status, record.error) == ("passthrough", 200, "")
    assert record.address == "openai_conversations:gpt-5.5"
    assert record.usage is not None
    assert record.usage.output_tokens


async def test_a_stream_arrives_byte_for_byte(
    simulator: Simulator, address: str, records: list[CallRecord]
) -> None:
    body = {
        "model": "openai_conversations:gpt-5.5",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "Name a sea."}],
    }
    answer = ScriptedAnswer(parts=(Say("The North Sea."), Invoke("clock", {"city": "Köln"})))
    async with aiohttp.ClientSession() as session:
        told = []
        for url, model in ((simulator.url, "gpt-5.5"), (address, body["model"])):
            simulator.enqueue(answer)
            async with session.post(
                f"{url}/v1/chat/completions",
                json={**body, "model": model},
                headers={"authorization": "Bearer sk-x"},
            ) as response:
                assert response.status == 200, await response.text()
                told.append(MADE_UP.sub(b"", await response.read()))
    assert told[0] == told[1]
    assert b"[DONE]" in told[0]
    assert records[0].usage is not None
    assert records[0].streamed


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("rate_limit", openai.RateLimitError), ("server_error", openai.InternalServerError)],
)
async def test_an_upstreams_error_arrives_as_what_it_is(
    simulator: Simulator, address: str, fault: str, kind: type[openai.APIStatusError]
) -> None:
    simulator.switch(fault)
    async with produce_client(address) as client:
        with pytest.raises(kind) as told:
            await client.chat.completions.create(
                model="openai_conversations:gpt-5.5",
                messages=[{"role": "user", "content": "Name a sea."}],
            )
    assert told.value.response.headers["x-vibe-request-id"]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/v1/messages?beta=true", "/v1/messages?beta=true"),
        ("/v1/messages?a=1&a=2&key=sk-client&access_token=x", "/v1/messages?a=1&a=2"),
        (
            "/v1beta/models/google:gemini-3-flash:streamGenerateContent?alt=sse&%24x=int&key=k",
            "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse&%24x=int",
        ),
    ],
)
async def test_the_query_is_carried_but_for_keys(tmp_path: Path, path: str, told: str) -> None:
    heard = []

    async def hear(connection: Connection) -> None:
        line, _, _ = await connection.read_request()
        heard.append(line.split(" ")[1])
        await connection.answer(b"{}", headers="Content-Type: application/json\r\n")

    async with serve(hear) as upstream, aiohttp.ClientSession() as session:
        application = produce_application(tmp_path, upstream.url)
        body: Any = {"model": "anthropic:claude-sonnet-5", "max_tokens": 1}
        body["messages"] = [{"role": "user", "content": "Hi."}]
        async with (
            serve_gateway(application) as address,
            session.post(URL(address + path, encoded=True), json=body) as answer,
        ):
            await answer.read()
    assert heard == [told]
