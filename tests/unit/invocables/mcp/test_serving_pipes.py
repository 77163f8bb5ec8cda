"""Lines of a program that has started a server of tools, as the package is given them."""

from __future__ import annotations

import asyncio
import os

import mcp_types as types
from mcp.shared.message import SessionMessage

from vibe_llms.invocables.mcp.serving.stdio import _Wire


async def test_a_request_that_was_answered_is_under_way_no_more_whatever_its_id() -> None:
    """Many clients count from 0, and the first of their requests must not hold a place for ever."""
    source, asking = os.pipe()
    answered, target = os.pipe()
    wire = _Wire(source, target, 1_000, 1)
    try:
        async with asyncio.timeout(20), wire.open() as (reading, writing), reading:
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
