"""What the gateway tells of itself and of requests: health, metrics, and lines of a log."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.gateways import produce_application, serve_gateway, wait_until
from support.gateways.hostile_upstreams import gateway_process
from support.gateways.key_holders import create_key
from support.network.wire_servers import Connection, serve
from vibe_llms.daemons.keys.authorizer import KeyAuthorizer
from vibe_llms.daemons.logged_bodies import MAX_BYTES, BodyBeginning
from vibe_llms.daemons.logs import AccessLog
from vibe_llms.foundation.secrets import HIDDEN
from vibe_llms.testing.simulator import Say, Simulator

ASKED = {"messages": [{"role": "user", "content": "My secret question."}]}


async def test_it_counts_what_it_has_done(tmp_path: Path) -> None:
    async with Simulator() as simulator, aiohttp.ClientSession() as session:
        application = produce_application(tmp_path, simulator.url)
        async with serve_gateway(application) as address:
            for model in ("openai_conversations:m", "anthropic:m", "nothing:at-all"):
                simulator.enqueue(Say("A secret answer."))
                body = {"model": model, "max_completion_tokens": 9, **ASKED}
                async with session.post(f"{address}/v1/chat/completions", json=body) as told:
                    await told.read()
            async with session.get(f"{address}/metrics") as told:
                text = await told.text()
    counted = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    labels = 'face="chat_completions",model="{}",status="{}",way="{}"'
    for model, status, way in (
        ("openai_conversations:m", 200, "passthrough"),
        ("anthropic:m", 200, "translate"),
        ("", 404, ""),
    ):
        key = labels.format(model, status, way)
        assert float(counted[f"vibe_requests_total{{{key}}}"]) == 1.0
    assert float(counted['vibe_errors_total{error="unknown-name"}']) == 1.0
    assert float(counted['vibe_tokens_total{kind="total_output",model="anthropic:m"}']) > 0
    assert "secret" not in text


async def test_a_line_tells_of_each_request_and_not_what_was_said(tmp_path: Path) -> None:
    lines: list[bytes] = []
    async with Simulator() as simulator, aiohttp.ClientSession() as session:
        application = produce_application(tmp_path, simulator.url)
        log = AccessLog(lines.append)
        async with serve_gateway(application, listeners=[log]) as address:
            simulator.enqueue(Say("A secret answer."))
            body: dict[str, Any] = {"model": "anthropic:m", "stream": True, "seed": 7, **ASKED}
            headers = {"authorization": "Bearer sk-secret"}
            url = f"{address}/v1/chat/completions"
            async with session.post(url, json=body, headers=headers) as told:
                await told.read()
            await wait_until(lambda: lines)
    told_of = json.loads(b"".join(lines))
    assert told_of["request"] == told.headers["x-vibe-request-id"]
    assert (told_of["status"], told_of["way"]) == (200, "translate")
    assert told_of["address"] == "anthropic:m"
    assert told_of["output_tokens"] > 0
    assert 0 < told_of["first_seconds"] <= told_of["seconds"]
    assert told_of["losses"]
    assert b"secret" not in b"".join(lines)


async def test_a_key_in_the_place_of_a_name_is_written_nowhere(tmp_path: Path) -> None:
    """As a model, in a path or as a trace: neither in the log, the metrics nor a file."""
    lines: list[bytes] = []
    keys, secret = tmp_path / "keys", "sk-" + "q" * 40
    headers = {"authorization": f"Bearer {create_key(keys)}", "traceparent": secret}
    async with Simulator() as simulator, aiohttp.ClientSession(headers=headers) as session:
        application = produce_application(tmp_path, simulator.url)
        log = AccessLog(lines.append)
        async with serve_gateway(
            application, listeners=[log], authorizer=KeyAuthorizer(keys)
        ) as address:
            for method, path, model, status in (
                ("POST", "/v1/chat/completions", f"openai_conversations:{secret}", 200),
                ("POST", "/v1/chat/completions", f"anthropic:{secret}", 200),
                ("POST", "/v1/chat/completions", secret, 404),
                ("POST", f"/v1beta/models/{secret}:generateContent", secret, 404),
                ("GET", f"/v1/models/{secret}", secret, 404),
                ("GET", f"/{secret}", secret, 404),
            ):
                simulator.enqueue(Say("A secret answer."))
                body = {"model": model, "max_completion_tokens": 9, **ASKED}
                async with session.request(method, address + path, json=body) as told:
                    assert told.status == status, (method, path, await told.text())
            async with session.get(f"{address}/metrics") as told:
                counted = await told.text()
            await wait_until(lambda: b"".join(lines).count(b"\n") == 7)
    assert counted.count(f'model="openai_conversations:{HIDDEN}"')
    assert secret not in counted
    assert secret.encode() not in b"".join(lines)
    assert b"".join(lines).count(HIDDEN.encode()) > 8
    for file in keys.rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "model", ["openai_conversations:m", "anthropic:m"], ids=["passthrough", "other"]
)
@pytest.mark.parametrize("by_file", [False, True], ids=["told", "by file"])
async def test_a_line_has_what_was_said_where_that_is_wanted(
    tmp_path: Path, model: str, stream: bool, by_file: bool
) -> None:
    """As the client sent and got it, whatever the way; without keys."""
    lines: list[bytes] = []
    file = tmp_path / "gateway.toml"
    file.write_text("log_contents = true", encoding="utf-8")
    options: dict[str, Any] = {"file": file} if by_file else {"keeps_contents": True}
    key, odd_key = "sk-" + "x" * 30, "what-opens-the-door"
    async with Simulator() as simulator, aiohttp.ClientSession() as session:
        application = produce_application(tmp_path, simulator.url)
        log = AccessLog(lines.append)
        async with serve_gateway(application, listeners=[log], **options) as address:
            simulator.enqueue(Say("A secret answer."))
            question = f"My secret question: is {key} mine, or {odd_key}?"
            messages = [{"role": "user", "content": question}]
            body = {"model": model, "max_tokens": 9, "stream": stream, "messages": messages}
            headers = {"authorization": f"Bearer {odd_key}"}
            url = f"{address}/v1/chat/completions"
            async with session.post(url, json=body, headers=headers) as told:
                answer = await told.text()
            async with session.get(f"{address}/healthz") as healthy:
                await healthy.read()
            await wait_until(lambda: b"".join(lines).count(b"\n") == 2)
    first, second = map(json.loads, b"".join(lines).splitlines())
    hidden = question.replace(key, HIDDEN).replace(odd_key, HIDDEN)
    assert json.loads(first["asked"]) == {
        **body,
        "messages": [{"role": "user", "content": hidden}],
    }
    assert first["answered"] == answer
    assert not {"asked", "answered"} & set(second)


@pytest.mark.parametrize("before", [0, 3, MAX_BYTES - 60, MAX_BYTES - 11, MAX_BYTES + 4_050])
def test_a_body_is_kept_up_to_a_bound_without_half_a_key(before: int) -> None:
    """Wherever that stands, and however the pieces are cut."""
    body, key = BodyBeginning(), b"sk-" + b"k" * 40
    pieces = (b"x" * before, b" ", key[:9], key[9:], b" ", b"y" * 1_000_000)
    for piece in pieces:
        body.feed(piece)
    shown = body.show()
    more = sum(map(len, pieces)) - MAX_BYTES
    assert shown.endswith(f"… ({more:,} bytes more)")
    assert MAX_BYTES - 50 < len(shown.partition("…")[0]) <= MAX_BYTES
    assert "k" not in shown
    assert (HIDDEN in shown) == (before < MAX_BYTES - 50)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["", "--log", "--log-contents"])
async def test_the_command_writes_what_was_said_where_it_is_told_to(
    tmp_path: Path, option: str
) -> None:
    async with gateway_process(tmp_path, options=[option] if option else []) as process:
        body = {"model": "anthropic:answer-well", "max_tokens": 9, **ASKED}
        url = f"{process.url}/v1/chat/completions"
        async with (
            aiohttp.ClientSession(headers=process.headers) as session,
            session.post(url, json=body) as told,
        ):
            assert told.status == 200
            await told.read()
        await process.end()  # which writes the lines that wait
    printed = "".join(process.printed)
    assert ('"status":200' in printed) == bool(option)
    assert ("My secret question." in printed) == (option == "--log-contents")
    assert process.key not in printed


async def test_it_says_whether_it_is_ready(tmp_path: Path) -> None:
    application = produce_application(tmp_path, "http://127.0.0.1:9")
    async with serve_gateway(application) as address, aiohttp.ClientSession() as session:
        for path, status in (("/healthz", 200), ("/readyz", 200), ("/nothing", 404)):
            async with session.get(address + path) as told:
                assert told.status == status
        async with session.get(f"{address}/v1/chat/completions") as told:
            assert told.status == 405
            assert told.headers["allow"] == "POST"


STREAMS: dict[str, tuple[str, bytes, bytes, bytes]] = {
    "openai_conversations:m": (
        "/v1/chat/completions",
        b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
        b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n',
        b'data: {"error":{"message":"It broke.","type":"server_error"}}\n\n',
    ),
    "openai_responses:m": (
        "/v1/responses",
        b'data: {"type":"response.created","response":{"id":"r","status":"in_progress"}}\n\n',
        b'data: {"type":["odd"]}\n\n'
        b'data: {"type":"response.completed","response":{"id":"r","output":[]}}\n\n',
        b'data: {"type":"response.failed","response":{"error":{"message":"It broke."}}}\n\n',
    ),
    "anthropic:m": (
        "/v1/messages",
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m"}}\n\n',
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
        b'data: {"type":"error","error":{"type":"overloaded_error","message":"It broke."}}\n\n',
    ),
    "google:m": (
        "/v1beta/models/google:m:streamGenerateContent?alt=sse",
        b'data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}\n\n',
        b'data: {"candidates":[{"content":{},"finishReason":"STOP"}]}\n\n',
        b'data: {"error":{"code":500,"message":"It broke.","status":"INTERNAL"}}\n\n',
    ),
    "ollama:m": (
        "/api/chat",
        b'{"message":{"role":"assistant","content":"Hi"},"done":false}\n',
        b'{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}\n',
        b'{"error":"It broke."}\n',
    ),
}
"""By model: the path of its protocol, the beginning of a stream, its end, and an error in it."""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["whole", "ended early", "cut", "error"])
@pytest.mark.parametrize("model", STREAMS)
async def test_a_carried_stream_that_breaks_off_is_told_of(
    tmp_path: Path, model: str, how: str
) -> None:
    """The client has what the vendor sent; the log and the metrics say how it ended."""
    path, begin, end, error = STREAMS[model]
    rest = {"whole": end, "error": error}.get(how, b"")

    async def answer(connection: Connection) -> None:
        line, _, _ = await connection.read_request()
        if "/api/show" in line:
            await connection.answer(b"{}")
            line, _, _ = await connection.read_request()
        kind = "application/x-ndjson" if "/api/" in line else "text/event-stream"
        await connection.begin(f"Content-Type: {kind}\r\n")
        await connection.send_chunk(begin + rest)
        if how != "cut":
            await connection.send_chunk(b"")

    lines: list[bytes] = []
    body = {"model": model, "stream": True, "store": False, **ASKED}
    async with serve(answer) as upstream, aiohttp.ClientSession() as session:
        application = produce_application(tmp_path, upstream.url)
        log = AccessLog(lines.append)
        async with serve_gateway(application, listeners=[log]) as address:
            said = b""
            async with session.post(address + path, json=body) as told:
                with contextlib.suppress(aiohttp.ClientPayloadError):
                    async for piece in told.content.iter_any():
                        said += piece
            await wait_until(lambda: lines)
            async with session.get(f"{address}/metrics") as told:
                counted = await told.text()
    line = json.loads(b"".join(lines))
    word = {"ended early": "stream-truncated", "cut": "transport", "error": "provider"}.get(how)
    assert said == begin + rest
    assert (line["way"], line["status"]) == ("passthrough", 200)
    assert line.get("error") == word
    assert ("It broke" in line.get("detail", "")) == (how == "error")
    broken = [each for each in counted.splitlines() if each.startswith("vibe_broken_answers_total")]
    assert [f'error="{word}"' in each and f'model="{model}"' in each for each in broken] == (
        [] if how == "whole" else [True]
    )
