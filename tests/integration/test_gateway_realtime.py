"""The Realtime API through the gateway, by OpenAI's library; the vendor is a small server here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import openai
import pytest
from websockets.asyncio.client import connect as websocket
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

from support.gateways.authorizers import FriendAuthorizer
from support.gateways.gateway_files import RoutedGateway
from support.gateways.key_holders import (
    ManualClocks,
    create_key,
    open_authorizer,
    sum_spending,
)
from vibe_llms.daemons.keys.ledger import KeyLedger
from vibe_llms.daemons.keys.register import Register
from vibe_llms.messages.canisters import Usage
from vibe_llms.testing.simulator import Simulator

TABLES = '[models.voice]\ntargets = ["first:gpt-realtime"]\n'
USAGE = {
    "total_tokens": 30,
    "input_tokens": 10,
    "output_tokens": 20,
    "input_token_details": {"cached_tokens": 4, "text_tokens": 6, "audio_tokens": 0},
    "output_token_details": {"text_tokens": 20, "audio_tokens": 0},
}


class Vendor:
    """OpenAI's server, as far as a client needs it here."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.messages: list[Any] = []

    async def answer(self, connection: ServerConnection) -> None:
        """Answers each ``response.create`` at once."""
        self.requests.append(connection.request)
        await connection.send(json.dumps({"type": "session.created", "event_id": "1"}))
        async for text in connection:
            message = json.loads(text)
            self.messages.append(message)
            if message["type"] == "response.create":
                response = {"id": "r", "object": "realtime.response", "usage": USAGE}
                done = {"type": "response.done", "event_id": "2", "response": response}
                await connection.send(json.dumps(done))
            elif message["type"] == "response.cancel":
                connection.transport.write(b"\x88\x00")  # a close without a code
            elif message["type"] == "input_audio_buffer.clear":
                await connection.close(4001, "enough")


@pytest.fixture
async def routed(tmp_path: Path) -> AsyncIterator[RoutedGateway]:
    """A gateway that does not run yet, and whose first vendor is ``vendor``."""
    vendor = Vendor()
    async with (
        Simulator() as simulator,
        serve(vendor.answer, "127.0.0.1", 0) as server,
    ):
        port = server.sockets[0].getsockname()[1]
        routed = RoutedGateway(tmp_path, simulator, simulator, url=f"http://127.0.0.1:{port}")
        routed.vendor = vendor  # type: ignore[attr-defined]
        yield routed


@asynccontextmanager
async def connect(
    routed: RoutedGateway, key: str = "x", model: str = "voice"
) -> AsyncIterator[Any]:
    """Connects OpenAI's client with the gateway."""
    client = openai.AsyncOpenAI(base_url=f"{routed.address}/v1", api_key=key, max_retries=0)
    async with client, client.realtime.connect(model=model) as connection:
        yield connection


async def test_messages_go_both_ways_and_usage_is_counted(routed: RoutedGateway) -> None:
    async with routed.run(TABLES), connect(routed) as connection:
        assert (await connection.recv()).type == "session.created"
        for _ in range(2):
            await connection.response.create()
            assert (await connection.recv()).type == "response.done"
    vendor: Any = routed.vendor  # type: ignore[attr-defined]
    (request,) = vendor.requests
    assert request.path == "/v1/realtime?model=gpt-realtime"
    assert request.headers["authorization"] == "Bearer sk-first"
    record = routed.records[-1]
    assert (record.path, record.address, record.status) == (
        "/v1/realtime",
        "first:gpt-realtime",
        101,
    )
    usage = record.usage
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (12, 8, 40)


async def test_the_vendors_close_reaches_the_client(routed: RoutedGateway) -> None:
    async with routed.run(TABLES), connect(routed) as connection:
        await connection.recv()
        await connection.input_audio_buffer.clear()
        with pytest.raises(Exception, match=r"4001.*enough"):
            await connection.recv()


async def test_a_client_that_may_not_use_the_model_is_refused(routed: RoutedGateway) -> None:
    async with routed.run(TABLES, authorizer=FriendAuthorizer()):
        with pytest.raises(Exception, match="403"):
            async with connect(routed, "stranger"):
                pass
        async with connect(routed, "friend") as connection:
            assert (await connection.recv()).type == "session.created"
    assert len(routed.vendor.requests) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("model", ["unknown", "other"])
async def test_a_model_without_the_api_is_refused(routed: RoutedGateway, model: str) -> None:
    tables = f'{TABLES}[models.other]\ntargets = ["scripted:echo"]\n'
    async with routed.run(tables):
        with pytest.raises(Exception, match="403"):
            async with connect(routed, model=model):
                pass
    assert routed.records[-1].error


async def test_a_vendor_that_cannot_be_reached_is_an_error_without_the_key(
    routed: RoutedGateway,
) -> None:
    tables = '[models.voice]\ntargets = ["second:gpt-realtime"]\n'
    async with routed.run(tables):
        with pytest.raises(Exception, match="403"):
            async with connect(routed):
                pass
    assert "sk-second" not in routed.records[-1].detail


async def test_a_close_without_a_code_is_a_normal_one(routed: RoutedGateway) -> None:
    async with routed.run(TABLES), connect(routed) as connection:
        await connection.recv()
        await connection.response.cancel()
        with pytest.raises(ConnectionClosedOK):
            await connection.recv()


async def test_the_key_of_the_gateway_is_not_sent_to_the_vendor(routed: RoutedGateway) -> None:
    async with routed.run(TABLES, authorizer=FriendAuthorizer()):
        address = routed.address.replace("http", "ws", 1)
        url = f"{address}/v1/realtime?model=voice&key=friend&access_token=friend&intent=x"
        async with websocket(url) as connection:
            await connection.recv()
    (request,) = routed.vendor.requests  # type: ignore[attr-defined]
    assert request.path == "/v1/realtime?model=gpt-realtime&intent=x"


async def test_what_was_reserved_is_settled(routed: RoutedGateway) -> None:
    authorizer = FriendAuthorizer()
    async with routed.run(TABLES, authorizer=authorizer), connect(routed, "friend") as connection:
        await connection.recv()
        await connection.response.create()
        await connection.recv()
    # The next response was reserved, and not requested.
    assert authorizer.calls == ["reserve", "settle", "reserve", "release"]


async def test_a_spent_budget_ends_the_connection_with_an_error_event(
    routed: RoutedGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usage of each response is charged when it arrives."""

    def price(usage: Usage | None, descriptor: object) -> Decimal | None:
        return None if usage is None else Decimal(usage.output_tokens) / 10

    monkeypatch.setattr("vibe_llms.daemons.gateway.realtime.price_in_cents", price)
    key = create_key(tmp_path / "keys", cents_per_day=4, requests_per_minute=2)
    authorizer = open_authorizer(tmp_path / "keys", ManualClocks())
    async with routed.run(TABLES, authorizer=authorizer):
        async with connect(routed, key) as connection:
            await connection.recv()
            for _ in range(2):
                await connection.response.create()
                assert (await connection.recv()).type == "response.done"
            event = await connection.recv()
            assert event.type == "error"
            assert event.error.code == "insufficient_quota"
            assert "4 cents" in event.error.message
            with pytest.raises(Exception, match="1008"):
                await connection.recv()
        with pytest.raises(Exception, match="403"):  # nothing is left for another connection
            async with connect(routed, key):
                pass
    assert len(routed.vendor.messages) == 2  # type: ignore[attr-defined]
    assert (routed.records[0].error, routed.records[0].cents) == ("access", Decimal(4))


async def test_a_revoked_key_ends_the_connection_after_the_response(
    routed: RoutedGateway, tmp_path: Path
) -> None:
    """An open connection is no way around the revocation."""
    key = create_key(tmp_path / "keys")
    authorizer = open_authorizer(tmp_path / "keys", ManualClocks())
    async with routed.run(TABLES, authorizer=authorizer), connect(routed, key) as connection:
        await connection.recv()
        await connection.response.create()
        assert (await connection.recv()).type == "response.done"
        Register(tmp_path / "keys").revoke("ada")
        with suppress(ConnectionClosed):  # another response was reserved before, or was not
            await connection.response.create()
        async with asyncio.timeout(60):
            while (event := await connection.recv()).type == "response.done":
                pass
        assert (event.type, event.error.code) == ("error", "invalid_api_key")
        assert "was revoked" in event.error.message
        with pytest.raises(Exception, match="1008"):
            await connection.recv()


async def test_a_connection_within_its_budget_charges_what_it_used(
    routed: RoutedGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "vibe_llms.daemons.gateway.realtime.price_in_cents",
        lambda usage, _: usage and Decimal(usage.output_tokens) / 10,
    )
    key = create_key(tmp_path / "keys", cents_per_day=9, requests_per_minute=2)
    authorizer = open_authorizer(tmp_path / "keys", ManualClocks())
    async with routed.run(TABLES, authorizer=authorizer):
        for _ in range(2):
            async with connect(routed, key) as connection:
                await connection.recv()
                await connection.response.create()
                assert (await connection.recv()).type == "response.done"
        async with asyncio.timeout(60):
            while len(routed.records) < 2:  # noqa: ASYNC110  # the gateway notices the close
                await asyncio.sleep(0.01)
    assert [(each.error, each.cents) for each in routed.records] == [("", Decimal(2))] * 2
    clocks = ManualClocks()
    ledger = KeyLedger(tmp_path / "keys", read_clock=clocks.read, read_time=clocks.read_time)
    with closing(ledger):
        spending = sum_spending(ledger.survey())
    assert (spending.cents, spending.requests, spending.perhaps_requests) == (Decimal(4), 2, 0)
