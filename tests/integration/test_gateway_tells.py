"""What the gateway tells of itself and of requests: health, metrics, and lines of a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp

from gateways import become, produce_application, serve_gateway
from vibe_llms.daemons.logs import AccessLog
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
        ("openai_conversations:m", 200, "carry"),
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
            await become(lambda: lines)
    told_of = json.loads(b"".join(lines))
    assert told_of["request"] == told.headers["x-vibe-request-id"]
    assert (told_of["status"], told_of["way"]) == (200, "translate")
    assert told_of["address"] == "anthropic:m"
    assert told_of["output_tokens"] > 0
    assert 0 < told_of["first_seconds"] <= told_of["seconds"]
    assert told_of["losses"]
    assert b"secret" not in b"".join(lines)


async def test_it_says_whether_it_is_ready(tmp_path: Path) -> None:
    application = produce_application(tmp_path, "http://127.0.0.1:9")
    async with serve_gateway(application) as address, aiohttp.ClientSession() as session:
        for path, status in (("/healthz", 200), ("/readyz", 200), ("/nothing", 404)):
            async with session.get(address + path) as told:
                assert told.status == status
        async with session.get(f"{address}/v1/chat/completions") as told:
            assert told.status == 405
            assert told.headers["allow"] == "POST"
