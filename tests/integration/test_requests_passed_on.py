"""Requests that are passed to another ASGI application, as those of tools are."""

from __future__ import annotations

import logging

import aiohttp
import pytest

from support.gateways.gateways import serve
from support.network.serving import Message, Receive, Send, begin_answer, read_body, send_body
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route
from vibe_llms.daemons.service import Service
from vibe_llms.dialects.client_answers import ErrorAnswer
from vibe_llms.exceptions import ConverseError


def refuse(error: ConverseError) -> ErrorAnswer:
    raise error


async def test_what_fails_behind_its_answer_has_answered(caplog: pytest.LogCaptureFixture) -> None:
    """The client has what it asked for; that something went wrong then, one line says."""

    async def slip(scope: Message, receive: Receive, send: Send) -> None:
        await read_body(receive)
        await begin_answer(send, (b"content-length", b"3"), status=202)
        await send_body(send, b"Yes")
        await begin_answer(
            send, status=500
        )  # as the official package does when a session has just ended

    async def handle(call: HttpCall, _: CallRecord) -> None:
        await call.pass_to(slip, await call.read_body())

    service = Service([Route(method="POST", pattern="/", handler=handle, write_error=refuse)])
    with caplog.at_level(logging.INFO):
        async with serve(service) as url, aiohttp.ClientSession() as session:
            for _ in range(2):
                async with session.post(f"{url}/", json="x") as answer:
                    assert (answer.status, await answer.text()) == (202, "Yes")
    assert [each.levelname for each in caplog.records] == ["WARNING"] * 2
    assert "failed after its answer: RuntimeError" in caplog.text
