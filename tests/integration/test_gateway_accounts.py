"""What an authorizer is told of each end: what was refused is given back, what was sent is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import pytest

from gateways import become, produce_application, serve_gateway
from vibe_llms.messages.canisters import Usage
from vibe_llms.plugins.specification.daemons import Arrival, Demand
from wire_servers import Connection, serve

ASKED = {"messages": [{"role": "user", "content": "Name a sea."}], "max_completion_tokens": 9}
MODELS = ["openai_conversations:m", "anthropic:m"]


@attrs.define
class Account:
    """An authorizer, a grant and a reservation in one, which notes what it is told."""

    admitted: bool = True
    told: list[str] = attrs.field(factory=list)
    subject: str = "somebody"

    async def authorize(self, arrival: Arrival) -> Account:
        return self

    def admits(self, model: str) -> bool:
        return self.admitted

    async def reserve(self, demand: Demand) -> Account:
        return self

    async def settle(self, usage: Usage | None, cents: Decimal | None) -> None:
        self.told.append("settled")

    async def release(self) -> None:
        self.told.append("released")

    async def close(self) -> None: ...


@asynccontextmanager
async def asking(answer: Any, folder: Path, account: Account) -> AsyncIterator[str]:
    """A gateway before an upstream, with an authorizer that takes notes."""
    async with serve(answer) as upstream:
        application = produce_application(folder, upstream.url)
        async with serve_gateway(application, authorizer=account) as address:
            yield address


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
        await become(lambda: account.told)
    assert account.told == ["released"]


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
        await become(lambda: account.told)
    assert account.told == ["settled"]


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
