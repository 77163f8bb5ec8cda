"""Clients that go before they are answered: the application learns of it at once."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress

import pytest

from support.gateways.gateways import wait_until
from support.network.serving import (
    Message,
    Receive,
    Send,
    begin_answer,
    compose_request,
    read_body,
    send_body,
    serving,
)
from vibe_llms.daemons.server.asgi_types import DISCONNECT_EXTENSION, ClientGone
from vibe_llms.daemons.server.connection import IncomingConnection


async def test_an_application_that_receives_is_told() -> None:
    """As ASGI has it: by the message that comes when nothing else does any more."""
    heard: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    async def wait(scope: Message, receive: Receive, send: Send) -> None:
        await read_body(receive)
        heard.set_result(await receive())

    async with serving(wait) as served:
        client = await served.connect()
        await client.write(compose_request())
        client.leave()

        assert await asyncio.wait_for(heard, 15) == {"type": "http.disconnect"}


async def test_an_application_that_does_not_receive_is_called() -> None:
    """It leaves a function for that; here one that cancels what answers."""
    ended = asyncio.Event()
    begun = asyncio.Event()

    async def wait(scope: Message, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        scope["extensions"][DISCONNECT_EXTENSION](task.cancel)
        try:
            begun.set()
            await asyncio.sleep(60)
        finally:
            ended.set()

    async with serving(wait) as served:
        client = await served.connect()
        await client.write(compose_request())
        await begun.wait()
        client.leave()

        await asyncio.wait_for(ended.wait(), 15)


async def test_sending_to_nobody_is_an_error() -> None:
    """Also for whoever waits until something is taken."""
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def flood(scope: Message, receive: Receive, send: Send) -> None:
        await begin_answer(send)
        try:
            while True:
                await send_body(send, b"x" * 100_000, more=True)
        except ClientGone:
            failed.set_result(None)

    async with serving(flood) as served:
        client = await served.connect()
        await client.write(compose_request())
        await client.read_head()
        client.leave()

        await asyncio.wait_for(failed, 15)


@pytest.mark.slow
@pytest.mark.parametrize("leaves", [False, True])
async def test_nothing_is_kept_of_a_connection_that_is_gone(leaves: bool) -> None:
    """Not even until somebody looks for garbage: thousands of clients may come and go by then."""

    async def tell(scope: Message, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        await read_body(receive)
        scope["extensions"][DISCONNECT_EXTENSION](lambda: (scope, task.cancel()))
        await begin_answer(send)
        await send_body(send, b"x", more=leaves)
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60 if leaves else 0)

    def count() -> int:
        return sum(isinstance(each, IncomingConnection) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = count()
        async with serving(tell) as served:
            client = await served.connect()
            await client.write(compose_request())
            await client.read_head()
            assert count() == before + 1
            client.leave()
            await wait_until(lambda: count() == before, 15)
    finally:
        gc.enable()
