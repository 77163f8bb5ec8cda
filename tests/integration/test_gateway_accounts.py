"""What an authorizer is told of each end: what was refused is given back, what was sent is not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.accounts import Account
from support.gateways.gateways import produce_application, serve_gateway, wait_until
from support.network.wire_servers import Connection, serve
from vibe_llms.daemons.logs import describe
from vibe_llms.daemons.records import CallRecord
from vibe_llms.messages.canisters import Usage

ASKED = {"messages": [{"role": "user", "content": "Name a sea."}], "max_completion_tokens": 9}
MODELS = ["openai_conversations:m", "anthropic:m"]


@asynccontextmanager
async def asking(
    answer: Any, folder: Path, account: Account | None, records: list[CallRecord] | None = None
) -> AsyncIterator[str]:
    """A gateway before an upstream, with an authorizer that takes notes."""
    async with serve(answer) as upstream:
        application = produce_application(folder, upstream.url)
        async with serve_gateway(application, records, authorizer=account) as address:
            yield address


@pytest.mark.slow
@pytest.mark.parametrize("status", ["400 No", "401 No", "429 No", "500 No", "529 No"])
@pytest.mark.parametrize("model", MODELS)
async def test_what_an_upstream_refuses_is_given_back(
    tmp_path: Path, model: str, status: str
) -> None:
    async def refuse(connection: Connection) -> None:
        await connection.read_request()
        headers = "Content-Type: application/json\r\n"
        await connection.answer(b'{"error":{"message":"No."}}', status=status, headers=headers)

    account = Account()
    async with asking(refuse, tmp_path, account) as address, aiohttp.ClientSession() as session:
        url = f"{address}/v1/chat/completions"
        async with session.post(url, json={"model": model, **ASKED}) as told:
            assert told.status == int(status[:3])
        await wait_until(lambda: account.calls)
    assert account.calls == ["released"]


@pytest.mark.parametrize("model", MODELS)
async def test_what_was_cut_counts(tmp_path: Path, model: str) -> None:
    async def cut(connection: Connection) -> None:
        await connection.read_request()
        connection.writer.transport.abort()

    account = Account()
    async with asking(cut, tmp_path, account) as address, aiohttp.ClientSession() as session:
        url = f"{address}/v1/chat/completions"
        async with session.post(url, json={"model": model, **ASKED}) as told:
            assert told.status == 502
        await wait_until(lambda: account.calls)
    assert account.calls == ["settled"]


@pytest.mark.parametrize("path", ["/api/show", "/v1/chat/completions", "/api/chat"])
async def test_a_model_that_is_not_for_a_client_is_not_told_of(tmp_path: Path, path: str) -> None:
    async def never(connection: Connection) -> None:
        raise AssertionError("nobody was to be asked")

    async with (
        asking(never, tmp_path, Account(admitted=False)) as address,
        aiohttp.ClientSession() as session,
        session.post(address + path, json={"model": "anthropic:m", **ASKED}) as told,
    ):
        assert told.status == 403


async def test_headers_that_are_no_latin_go_on(tmp_path: Path) -> None:
    async def answer(connection: Connection) -> None:
        await connection.read_request()
        head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Price: 3 €\r\nSet-Cookie: a\r\n"
        await connection.write(f"{head}OpenAI-Organization: ours\r\n\r\n{{}}".encode())

    async with (
        asking(answer, tmp_path, Account()) as address,
        aiohttp.ClientSession() as session,
        session.post(f"{address}/v1/chat/completions", json={"model": MODELS[0], **ASKED}) as told,
    ):
        assert told.status == 200
        assert told.headers["x-price"] == "3 €"
        assert not {"set-cookie", "openai-organization"} & {name.lower() for name in told.headers}


async def test_made_up_names_are_not_remembered_for_ever(tmp_path: Path) -> None:
    application = produce_application(tmp_path, "http://127.0.0.1:9")
    for number in range(3_000):
        application.resolve_address(f"anthropic:made-up-{number}")
    assert len(application._addresses) < 2_000


def frame(**fields: Any) -> bytes:
    return f"event: {fields['type']}\ndata: {json.dumps(fields)}\n\n".encode()


BEGUN = [
    frame(
        type="message_start",
        message={
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "usage": {"input_tokens": 41, "cache_read_input_tokens": 7, "output_tokens": 1},
        },
    ),
    frame(type="content_block_start", index=0, content_block={"type": "text", "text": ""}),
]


def stream(*events: bytes, cut: bool = False) -> Any:
    """What an upstream does that streams these, and then breaks off or not."""

    async def answer(connection: Connection) -> None:
        await connection.read_request()
        head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
        await connection.write(f"{head}Content-Type: text/event-stream\r\n\r\n".encode())
        for event in events:
            await connection.send_chunk(event)
        if cut:
            connection.writer.transport.abort()
        else:
            await connection.send_chunk(b"")

    return answer


def say_in_messages(text: str) -> bytes:
    delta = {"type": "text_delta", "text": text}
    return frame(type="content_block_delta", index=0, delta=delta)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_what_was_said_before_a_cut_counts(tmp_path: Path, path: str) -> None:
    """The beginning tells of the input; what came then is estimated, and never less than told."""
    events = [*BEGUN, *(say_in_messages("The North Sea is cold. ") for _ in range(40))]
    account, records = Account(), list[CallRecord]()
    body = {"model": "anthropic:m", **ASKED, "max_tokens": 900, "stream": True}
    async with (
        asking(stream(*events, cut=True), tmp_path, account, records) as address,
        aiohttp.ClientSession() as session,
    ):
        with suppress(aiohttp.ClientError):
            async with session.post(address + path, json=body) as told:
                await told.read()
        await wait_until(lambda: records)
    [(usage, _)] = account.used
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens) == (41, 7)
    assert 150 <= (usage.total_output_tokens or 0) <= 500  # 40 times 5 words
    assert records[0].is_estimated
    assert describe(records[0])["estimated"]


async def test_what_came_to_its_end_is_no_estimate(tmp_path: Path) -> None:
    ending = [
        frame(type="content_block_stop", index=0),
        frame(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3}),
        frame(type="message_stop"),
    ]
    events = [*BEGUN, say_in_messages("The North Sea is cold. " * 40), *ending]
    account, records = Account(), list[CallRecord]()
    body = {"model": "anthropic:m", **ASKED, "max_tokens": 900, "stream": True}
    async with (
        asking(stream(*events), tmp_path, account, records) as address,
        aiohttp.ClientSession() as session,
    ):
        for path in ("/v1/messages", "/v1/chat/completions"):
            async with session.post(address + path, json=body) as told:
                await told.read()
        await wait_until(lambda: len(records) == 2)
    assert [usage and usage.total_output_tokens for usage, _ in account.used] == [3, 3]
    assert not any(each.is_estimated for each in records)


def chunk(choices: list[Any], **fields: Any) -> bytes:
    told = {"id": "c", "object": "chat.completion.chunk", "choices": choices, **fields}
    return f"data: {json.dumps(told)}\r\n\r\n".encode()


SAID = [
    chunk([], prompt_filter_results=[{"prompt_index": 0}], usage=None),  # as Azure begins
    chunk([{"index": 0, "delta": {"content": 'Say "choices":[] and "usage".'}}], usage=None),
    chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}], usage=None),
]
USED = chunk([], usage={"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9})
DONE = b"data: [DONE]\n\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "kind"),
    [(1, "text/event-stream"), (7, "text/plain"), (10_000, "text/event-stream")],
)
@pytest.mark.parametrize(
    ("options", "sees"),
    [(None, False), ({"include_usage": False}, False), ({"include_usage": True}, True)],
)
@pytest.mark.parametrize("has_account", [True, False])
async def test_a_stream_tells_what_it_used(
    tmp_path: Path, size: int, kind: str, options: Any, sees: bool, has_account: bool
) -> None:
    """Who keeps an account asks for what was used; a client sees of that what it has asked for.

    Even where the stream goes by a wrong name.
    """
    asked: list[dict[str, Any]] = []

    async def answer(connection: Connection) -> None:
        _, _, body = await connection.read_request()
        asked.append(json.loads(body))
        tells = (asked[-1].get("stream_options") or {}).get("include_usage")
        data = b"".join([*SAID, *([USED] if tells else []), DONE])
        head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
        await connection.write(f"{head}Content-Type: {kind}\r\n\r\n".encode())
        for start in range(0, len(data), size):
            await connection.send_chunk(data[start : start + size])
        await connection.send_chunk(b"")

    account = Account()
    body = {"model": MODELS[0], **ASKED, "stream": True, "top_p": 0.50}
    if options is not None:
        body["stream_options"] = {**options, "include_obfuscation": False}
    async with (
        asking(answer, tmp_path, account if has_account else None) as address,
        aiohttp.ClientSession() as session,
    ):
        async with session.post(f"{address}/v1/chat/completions", json=body) as told:
            said = await told.read()
        await wait_until(lambda: account.used or not has_account)
    assert said == b"".join([*SAID, *([USED] if sees else []), DONE])
    usages = [usage and usage.total_output_tokens for usage, _ in account.used]
    assert usages == ([4] if has_account else [])
    if not has_account:
        assert asked[0].get("stream_options") == body.get("stream_options")
    elif options is not None:
        assert asked[0]["stream_options"]["include_obfuscation"] is False


@pytest.mark.parametrize("model", ["anthropic:m", "openai_conversations:m"])
async def test_a_count_is_a_request(tmp_path: Path, model: str) -> None:
    async def count(connection: Connection) -> None:
        await connection.read_request()
        await connection.answer(
            b'{"input_tokens": 4}', headers="Content-Type: application/json\r\n"
        )

    account = Account()
    body = {"model": model, **ASKED}
    async with asking(count, tmp_path, account) as address, aiohttp.ClientSession() as session:
        async with session.post(f"{address}/v1/messages/count_tokens", json=body) as told:
            assert (await told.json())["input_tokens"]
        await wait_until(lambda: account.calls)
    assert [(each.model, each.cents) for each in account.demands] == [(model, 0)]
    assert account.used == [(Usage(input_tokens=0, output_tokens=0), 0)]
