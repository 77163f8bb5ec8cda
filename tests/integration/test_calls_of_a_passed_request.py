"""What the gateway does for a small request that it passes through, counted in calls."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from support.gateways.accounts import Account
from support.gateways.gateways import produce_application
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.daemons.service import Service

AT_MOST = 240
"""Calls of functions of Python. They were 451 before deadlines shared a timer and metrics were
batched, 311 before known heads were kept and tokens counted without a usage, and 255 before small
properties and helpers went."""

PAGE_AT_MOST = 5
"""Further calls where the request is counted for the operator's page."""

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
}
BODY = json.dumps(ANSWER).encode()
REQUESTS = 20


async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Plays a vendor; a small request comes in one piece."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    while await reader.read(65_536):
        writer.write(head % len(BODY) + BODY)
    writer.close()


async def count_calls(service: Service) -> int:
    """Asks the gateway; returns the calls of a request, the vendor's and the client's left out.

    Of several requests the least: on a busy machine, timers of the gateway expire during some.
    """
    body = json.dumps(
        {"model": "openai_conversations:m", "messages": [{"role": "user", "content": "Hi"}]}
    ).encode()
    asked = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    ) + body
    calls = 0
    counts: list[int] = []

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        # The vendor and the client use streams, which nothing else does.
        is_ours = frame.f_code.co_filename not in (__file__, asyncio.streams.__file__)
        calls += event == "call" and is_ours

    async with Server(service, ServerSettings(port=0)) as server:
        port = int(server.urls[0].rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def ask() -> None:
            writer.write(asked)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            assert await reader.readexactly(size) == BODY

        for _ in range(4):  # what is made once is made
            await ask()
        gc.collect()
        gc.disable()
        sys.setprofile(count)
        try:
            for _ in range(REQUESTS):
                before = calls
                await ask()
                counts.append(calls - before)
        finally:
            sys.setprofile(None)
            gc.enable()
        writer.close()
    return min(counts)


@pytest.mark.skipif(sys.platform == "win32", reason="its event loop reads and writes otherwise")
async def test_a_passed_request_takes_few_calls(tmp_path: Path) -> None:
    vendor = await asyncio.start_server(answer_all, "127.0.0.1", 0)
    port = vendor.sockets[0].getsockname()[1]
    service = produce_service(produce_application(tmp_path, f"http://127.0.0.1:{port}"))
    assert await count_calls(service) <= AT_MOST
    vendor.close()


@pytest.mark.skipif(sys.platform == "win32", reason="its event loop reads and writes otherwise")
async def test_a_request_that_is_counted_takes_few_more(tmp_path: Path) -> None:
    vendor = await asyncio.start_server(answer_all, "127.0.0.1", 0)
    port = vendor.sockets[0].getsockname()[1]
    application = produce_application(tmp_path, f"http://127.0.0.1:{port}")
    calls = [
        await count_calls(produce_service(application, authorizer=Account(), has_page=has_page))
        for has_page in (False, True)
    ]
    assert 0 < calls[1] - calls[0] <= PAGE_AT_MOST
    vendor.close()
