"""What an upstream does wrong arrives as what it is; who leaves ends what is upstream."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
import trustme

from support.gateways.gateways import produce_application, serve_gateway, wait_until
from support.network.wire_servers import Connection, Server, serve
from vibe_llms.daemons.admission import ServiceLimits
from vibe_llms.daemons.records import CallRecord

CHUNK = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
ASKED = {"messages": [{"role": "user", "content": "Name a sea."}], "max_tokens": 9}
CARRIED = "openai_conversations:m"
TRANSLATED = "anthropic:m"
MESSAGE_START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message",'
    b'"role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}'
    b'\n\nevent: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":"word"}}\n\n'
)


@asynccontextmanager
async def gateway_before(
    answer: Any, folder: Path, **options: Any
) -> AsyncIterator[tuple[str, Server, list[CallRecord]]]:
    """A gateway whose upstreams do what a test says."""
    records: list[CallRecord] = []
    async with serve(answer) as upstream:
        application = produce_application(folder, upstream.url)
        async with serve_gateway(application, records, **options) as address:
            yield address, upstream, records


def ask(session: aiohttp.ClientSession, address: str, model: str, **more: Any) -> Any:
    """Sends a request of Chat Completions."""
    return session.post(f"{address}/v1/chat/completions", json={"model": model, **ASKED, **more})


async def begin_and_wait(connection: Connection) -> None:
    """Begins a streamed answer in the protocol that was asked, and says no more."""
    line, _, _ = await connection.read_request()
    await connection.begin()
    await connection.send_chunk(MESSAGE_START if "/messages" in line else CHUNK)
    await connection.wait_closed()


async def wait_for_ever(connection: Connection) -> None:
    """Never answers."""
    await connection.read_request()
    await connection.wait_closed()


async def test_a_cut_stream_is_a_cut_stream(tmp_path: Path) -> None:
    async def cut(connection: Connection) -> None:
        await connection.read_request()
        await connection.begin()
        await connection.send_chunk(CHUNK)
        connection.writer.transport.abort()

    async with (
        gateway_before(cut, tmp_path) as (address, _, records),
        aiohttp.ClientSession() as session,
        ask(session, address, CARRIED, stream=True) as told,
    ):
        assert await told.content.readline() == CHUNK.split(b"\n")[0] + b"\n"
        with pytest.raises(aiohttp.ClientPayloadError):
            await told.read()
    assert records[0].error == "transport"


@pytest.mark.slow
@pytest.mark.parametrize("model", [CARRIED, TRANSLATED], ids=["carried", "translated"])
async def test_an_upstream_that_is_not_trusted_is_refused_at_once(
    tmp_path: Path, model: str
) -> None:
    """In the words of each face, and its official clients are told not to ask again."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    talk = {"model": model, "messages": ASKED["messages"]}
    parts = {"contents": [{"parts": [{"text": "Name a sea."}]}]}
    async with (
        serve(wait_for_ever, tls=context) as upstream,
        serve_gateway(
            produce_application(tmp_path, upstream.url.replace("localhost", "127.0.0.1"))
        ) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="any") as client,
        aiohttp.ClientSession() as session,
    ):
        for path, body, place in (
            ("/v1/messages", {**talk, "max_tokens": 9}, ("error", "message")),
            ("/v1/responses", {"model": model, "input": "A sea?"}, ("error", "message")),
            (f"/v1beta/models/{model}:generateContent", parts, ("error", "message")),
            ("/api/chat", talk, ("error",)),
        ):
            async with session.post(f"{address}{path}", json=body) as told:
                assert (told.status, told.headers["x-should-retry"]) == (502, "false"), path
                said = await told.json()
                for name in place:
                    said = said[name]
                assert "a retry will not help" in said
        asked = client.chat.completions.with_raw_response
        with pytest.raises(openai.InternalServerError, match="will not help") as caught:
            await asked.create(model=model, messages=ASKED["messages"])  # type: ignore[call-overload]
    assert caught.value.request.headers["x-stainless-retry-count"] == "0"


@pytest.mark.slow
@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("model", [CARRIED, TRANSLATED], ids=["carried", "translated"])
async def test_who_leaves_ends_what_is_upstream(
    tmp_path: Path, model: str, streaming: bool
) -> None:
    answer = begin_and_wait if streaming else wait_for_ever
    async with (
        gateway_before(answer, tmp_path) as (address, upstream, records),
        aiohttp.ClientSession() as session,
    ):
        asking = asyncio.create_task(_ask_and_wait(session, address, model, streaming))
        await wait_until(lambda: upstream.connections and upstream.connections[0].requests)
        if streaming:
            await wait_until(lambda: asking.get_name() == "begun" or asking.done())
        asking.cancel()
        await asyncio.wait_for(upstream.connections[0].closed.wait(), 60)
        await wait_until(lambda: records)
    assert records[0].error == "client-gone"


async def _ask_and_wait(
    session: aiohttp.ClientSession, address: str, model: str, streaming: bool
) -> None:
    async with ask(session, address, model, stream=streaming) as told:
        await told.content.readany()
        task = asyncio.current_task()
        assert task is not None
        task.set_name("begun")
        await asyncio.sleep(60)


async def test_an_upstream_that_is_away_is_a_bad_gateway(tmp_path: Path) -> None:
    application = produce_application(tmp_path, "http://127.0.0.1:9")
    async with (
        serve_gateway(application) as address,
        aiohttp.ClientSession() as session,
    ):
        for model in (CARRIED, TRANSLATED):
            async with ask(session, address, model) as told:
                body = await told.json()
            assert told.status == 502
            assert "unreachable" in body["error"]["message"]
            assert not {"sk-upstream", "127.0.0.1"} & set(json.dumps(body).split())


@pytest.mark.parametrize(
    ("model", "body"),
    [
        ("google:m", b'[{"error": {"code": 429, "message": "Too much.", "status": "X"}}]'),
        ("google:m", b'{"detail": "Too much."}'),
        ("ollama:m", b'{"detail": "Too much."}'),
        ("anthropic:m", b'[{"type": "error", "error": {"type": "x", "message": "Too much."}}]'),
    ],
)
async def test_what_an_upstream_complains_of_is_told_in_whatever_form_it_came(
    tmp_path: Path, model: str, body: bytes
) -> None:
    """A stream of Gemini's that is a list ends with one, and who stands before has other fields."""

    async def refuse(connection: Connection) -> None:
        kind = "Content-Type: application/json\r\n"
        while True:
            await connection.read_request()
            await connection.answer(body, status="429 Too Many Requests", headers=kind)

    async with (
        gateway_before(refuse, tmp_path) as (address, _, _),
        aiohttp.ClientSession() as session,
        ask(session, address, model) as told,
    ):
        assert told.status == 429
        assert (await told.json())["error"]["message"] == "Too much."


@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_an_answer_whose_last_event_lacks_its_end_is_whole(
    tmp_path: Path, end: bytes
) -> None:
    chunk = {
        "candidates": [{"content": {"parts": [{"text": "Baltic."}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4},
    }

    async def forget(connection: Connection) -> None:
        await connection.read_request()
        await connection.begin()
        await connection.send_chunk(b"data: " + json.dumps(chunk).encode() + end)
        await connection.send_chunk(b"")

    async with (
        gateway_before(forget, tmp_path) as (address, _, records),
        aiohttp.ClientSession() as session,
    ):
        async with ask(session, address, "google:m", stream=True) as told:
            assert b"Baltic." in (said := await told.read())
            assert said.endswith(b"data: [DONE]\n\n")
        path = "/v1beta/models/google:m:streamGenerateContent?alt=sse"
        parts = {"contents": [{"parts": [{"text": "Name a sea."}]}]}
        async with session.post(f"{address}{path}", json=parts) as told:
            assert (await told.read()).endswith(end or b"}")
        await wait_until(lambda: len(records) == 2)
    for record in records:
        assert record.usage is not None
        assert record.usage.output_tokens == 4


async def test_nothing_is_asked_twice(tmp_path: Path) -> None:
    async def overloaded(connection: Connection) -> None:
        while True:
            await connection.read_request()
            error = b'{"error":{"type":"overloaded_error","message":"Later."}}'
            await connection.answer(
                error,
                status="529 Overloaded",
                headers="Retry-After: 7\r\nContent-Type: application/json\r\n",
            )

    async with (
        gateway_before(overloaded, tmp_path) as (address, upstream, _),
        aiohttp.ClientSession() as session,
    ):
        for model in (CARRIED, TRANSLATED):
            async with ask(session, address, model) as told:
                await told.read()
            assert told.status == 529
            assert told.headers["retry-after"] == "7"
    assert sum(len(each.requests) for each in upstream.connections) == 2


@pytest.mark.parametrize("model", [CARRIED, TRANSLATED], ids=["carried", "translated"])
async def test_who_comes_next_does_not_wait_for_an_upstream_that_refused_another(
    tmp_path: Path, model: str
) -> None:
    """Its 429 is for whoever got it; the next one asks for himself, at once."""

    async def refuse(connection: Connection) -> None:
        while True:
            await connection.read_request()
            await connection.answer(
                b'{"error":{"type":"rate_limit_error","message":"Later."}}',
                status="429 Too Many Requests",
                headers="Retry-After: 30\r\nContent-Type: application/json\r\n"
                "x-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: 30s\r\n",
            )

    async with (
        gateway_before(refuse, tmp_path) as (address, upstream, _),
        aiohttp.ClientSession() as session,
        asyncio.timeout(25),
    ):
        for _ in range(6):
            async with ask(session, address, model) as told:
                assert told.status == 429
                assert told.headers["retry-after"] == "30"
    assert sum(len(each.requests) for each in upstream.connections) == 6


async def test_too_much_at_once_is_told_to_come_again(tmp_path: Path) -> None:
    limits = ServiceLimits(requests=1, waiting_requests=1, waiting_seconds=0.05)
    async with (
        gateway_before(wait_for_ever, tmp_path, limits=limits) as (address, upstream, _),
        aiohttp.ClientSession() as session,
    ):
        first = asyncio.create_task(_ask_and_wait(session, address, CARRIED, False))
        await wait_until(lambda: upstream.connections)
        async with ask(session, address, CARRIED) as told:
            assert told.status == 503
            assert "requests = 1" in (await told.json())["error"]["message"]
        async with session.get(f"{address}/healthz") as health:
            assert health.status == 200
        first.cancel()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{", 400),
        (b'{"model":7}', 400),
        (b'{"model":"nothing:at-all"}', 404),
        (b'{"model":"anthropic:m"}', 400),
        (b'{"model":"anthropic:m","messages":"Hello"}', 400),
        (b'{"model":"\xff"}', 400),
        (b"[" * 100_000, 400),
    ],
)
async def test_nonsense_has_a_clear_answer(tmp_path: Path, body: bytes, status: int) -> None:
    headers = {"content-type": "application/json"}
    async with (
        gateway_before(wait_for_ever, tmp_path) as (address, upstream, _),
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{address}/v1/chat/completions", data=body) as told,
    ):
        assert told.status == status
        message = (await told.json())["error"]["message"]
        assert message
        assert "Traceback" not in message
    assert not upstream.connections
