"""Lines of a program that has started a server of tools, as the package is given them."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import Any

import mcp_types as types
from mcp.shared.message import SessionMessage

from vibe_llms.invocables.mcp.serving.stdio import _LineTransport


async def test_a_request_that_was_answered_is_under_way_no_more_whatever_its_id() -> None:
    """Many clients count from 0, and the first of their requests must not hold a place for ever."""
    source, asking = os.pipe()
    answered, target = os.pipe()
    wire = _LineTransport(source, target, 1_000, 1)
    try:
        async with asyncio.timeout(60), wire.open() as (reading, writing), reading:
            for number in (0, "", 1):
                said = types.JSONRPCRequest(jsonrpc="2.0", id=number, method="ping")
                os.write(asking, said.model_dump_json().encode() + b"\n")
                heard = await reading.receive()
                assert isinstance(heard, SessionMessage)
                assert getattr(heard.message, "id", None) == number
                done = types.JSONRPCResponse(jsonrpc="2.0", id=number, result={})
                await writing.send(SessionMessage(done))
                assert b'"result"' in await asyncio.to_thread(os.read, answered, 1_000)
                assert not wire.busy
            os.close(asking)
    finally:
        for each in (source, answered, target):
            os.close(each)


async def test_a_request_that_was_cancelled_holds_its_place_until_it_has_ended() -> None:
    """Else a client that cancels has as many under way as it likes."""
    source, asking = os.pipe()
    answered, target = os.pipe()
    wire = _LineTransport(source, target, 1_000, 1)
    leave, go_on = asyncio.Event(), asyncio.Event()

    async def tidy_up(_: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            leave.set()
            await go_on.wait()

    def say(method: str, number: int | None, **params: Any) -> None:
        kind = types.JSONRPCNotification if number is None else types.JSONRPCRequest
        more = {} if number is None else {"id": number}
        said: Any = kind(jsonrpc="2.0", method=method, params=params, **more)
        os.write(asking, said.model_dump_json().encode() + b"\n")

    try:
        async with asyncio.timeout(60), wire.open() as (reading, _), reading:
            say("tools/call", 1)
            await reading.receive()
            context: Any = SimpleNamespace(request_id=1)
            call = asyncio.create_task(wire.track(context, tidy_up))
            await asyncio.sleep(0)
            say("notifications/cancelled", None, requestId=1)
            await reading.receive()
            call.cancel()
            await leave.wait()
            say("tools/call", 2)
            refused = await asyncio.to_thread(os.read, answered, 1_000)
            assert b"requests = 1" in refused
            go_on.set()
            await asyncio.wait((call,))
            say("tools/call", 3)
            say("notifications/cancelled", None, requestId=3)  # before anybody has begun with it
            for _ in range(2):
                await reading.receive()
            assert not wire.busy
            os.close(asking)
    finally:
        for each in (source, answered, target):
            os.close(each)


async def test_a_second_request_of_an_id_is_refused_while_the_first_is_under_way() -> None:
    """Else whoever gives all the same id has as many under way as they like."""
    source, asking = os.pipe()
    answered, target = os.pipe()
    wire = _LineTransport(source, target, 1_000, 2)
    said = types.JSONRPCRequest(jsonrpc="2.0", id=7, method="ping").model_dump_json().encode()
    try:
        async with asyncio.timeout(60), wire.open() as (reading, writing), reading:
            os.write(asking, said + b"\n")
            await reading.receive()
            os.write(asking, said + b"\n")
            refused = await asyncio.to_thread(os.read, answered, 1_000)
            assert b"still under way" in refused
            done = types.JSONRPCResponse(jsonrpc="2.0", id=7, result={})
            await writing.send(SessionMessage(done))
            assert b'"result"' in await asyncio.to_thread(os.read, answered, 1_000)
            os.write(asking, said + b"\n")
            assert isinstance(await reading.receive(), SessionMessage)  # it is free again
            os.close(asking)
    finally:
        for each in (source, answered, target):
            os.close(each)
