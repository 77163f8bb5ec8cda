"""A client whose key is revoked is disconnected from the event streams that it has open."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest

from support.daemons.run_daemons import read_frames, serving
from support.daemons.tool_servers import FixedApplication, connect_sessionless, serve_tools
from support.gateways.authorizers import KeyAuthorizer
from support.runs.acting import invoke, say
from vibe_llms.daemons import open_streams
from vibe_llms.exceptions import AccessError, ProviderFault
from vibe_llms.invocables import FunctionsEnsemble, invocable, produce_invoker
from vibe_llms.plugins.specification.daemons import Arrival

ANN, BOB, EVE = ({"authorization": f"Bearer {name}"} for name in ("ann", "bob", "eve"))


class RevokingAuthorizer(KeyAuthorizer):
    """Authorizer of any key, until it refuses one for a reason."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: dict[str, ProviderFault] = {}
        self.broken: set[str] = set()
        self.was_asked = asyncio.Event()
        self.slow, self.waits, self.may_answer = "", asyncio.Event(), asyncio.Event()

    async def authorize(self, arrival: Arrival) -> KeyAuthorizer.Grant:
        self.was_asked.set()
        if arrival.credential == self.slow:
            self.waits.set()
            await self.may_answer.wait()
        if arrival.credential in self.broken:
            raise ValueError("broken")
        if fault := self.refused.get(arrival.credential):
            raise AccessError(fault=fault, detail="No more.")
        return await super().authorize(arrival)


@pytest.fixture(autouse=True)
def _checks_are_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_streams, "CHECK_SECONDS", 0.01)


async def test_events_of_a_run_end_for_a_revoked_key_alone(tmp_path: Path) -> None:
    """Neither for others, nor for a key that may send nothing more today."""
    authorizer = RevokingAuthorizer()
    async with serving(tmp_path, authorizer=authorizer) as daemon:
        paths = [f"/runs/{await daemon.start([say('Done.')], **who)}" for who in (ANN, BOB, EVE)]
        urls = [f"{daemon.url}{path}/events" for path in paths]
        async with (
            daemon.session.get(urls[0], headers=ANN) as of_ann,
            daemon.session.get(urls[1], headers=BOB) as of_bob,
            daemon.session.get(urls[2], headers=EVE) as of_eve,
        ):
            authorizer.refused = {
                "ann": ProviderFault.AUTHENTICATION,
                "bob": ProviderFault.RATE_LIMITED,
            }
            with pytest.raises(aiohttp.ClientPayloadError):
                await of_ann.read()
            del authorizer.refused["bob"]
            for path, who, stream in ((paths[1], BOB, of_bob), (paths[2], EVE, of_eve)):
                await daemon.ask("DELETE", path, **who)
                assert read_frames(await stream.text())[-1][1] == "run.deleted"


async def test_a_check_that_lasts_or_fails_delays_no_other(tmp_path: Path) -> None:
    """It ends the stream of its own client once it is done."""
    authorizer = RevokingAuthorizer()
    async with serving(tmp_path, authorizer=authorizer) as daemon:
        paths = [f"/runs/{await daemon.start([say('Done.')], **who)}" for who in (ANN, BOB, EVE)]
        urls = [f"{daemon.url}{path}/events" for path in paths]
        async with (
            daemon.session.get(urls[0], headers=ANN) as of_ann,
            daemon.session.get(urls[1], headers=BOB) as of_bob,
            daemon.session.get(urls[2], headers=EVE) as of_eve,
        ):
            authorizer.slow, authorizer.broken = "ann", {"bob"}
            await authorizer.waits.wait()
            for who in ("ann", "eve"):
                authorizer.refused[who] = ProviderFault.AUTHENTICATION
            with pytest.raises(aiohttp.ClientPayloadError):
                await of_eve.read()
            authorizer.broken.clear()
            authorizer.refused["bob"] = ProviderFault.PERMISSION
            with pytest.raises(aiohttp.ClientPayloadError):
                await of_bob.read()
            authorizer.may_answer.set()
            with pytest.raises(aiohttp.ClientPayloadError):
                await of_ann.read()


async def test_an_answer_of_a_face_ends_for_a_revoked_key(tmp_path: Path) -> None:
    """The run, which waits for a tool, continues."""
    authorizer, may_end = RevokingAuthorizer(), asyncio.Event()

    async def pay() -> str:
        """Pay."""
        authorizer.refused["ann"] = ProviderFault.PERMISSION
        await may_end.wait()
        return "paid"

    async with serving(tmp_path, produce_invoker(pay), authorizer=authorizer) as daemon:
        run = daemon.premises.spec([invoke("pay")], [say("Done.")]).export()
        message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "Pay."}]}
        body = {"id": "t", "messages": [message], "run": run}
        async with daemon.session.post(f"{daemon.url}/ai-sdk", json=body, headers=ANN) as answer:
            assert answer.status == 200, await answer.text()
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        may_end.set()
        (summary,) = await daemon.premises.runs.survey(subject="ann")
        assert (await daemon.premises.wait(summary.id, "ended", subject="ann")).reason == "answered"


@invocable(effect="pure")
def look() -> str:
    """Look."""
    return "sky"


async def open_session(client: httpx2.AsyncClient, address: str) -> str:
    """Open a session of a tool server; return its id."""
    params: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
    params["clientInfo"] = {"name": "stranger", "version": "1"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    accept = {"accept": "application/json, text/event-stream"}
    answer = await client.post(address, json=body, headers={**accept, **ANN})
    return str(answer.headers["mcp-session-id"])


async def test_streams_of_a_tool_server_end_for_a_revoked_key(tmp_path: Path) -> None:
    """That of a session, and one of a client without sessions."""
    authorizer = RevokingAuthorizer()
    offered = FixedApplication(tmp_path, FunctionsEnsemble("own", [look]))
    async with (
        serve_tools(offered, authorizer=authorizer) as address,
        connect_sessionless(address) as sessionless,
        httpx2.AsyncClient(timeout=60) as client,
    ):
        session = {"mcp-session-id": await open_session(client, address)}
        headers = {"accept": "text/event-stream", **session, **ANN}
        wanted = {"toolsListChanged": True}

        async def listen() -> httpx2.Response:
            return await client.get(address, headers=headers)

        async def listen_without_session() -> httpx2.Response:
            return await sessionless.post("subscriptions/listen", ANN, notifications=wanted)

        for ask in (listen, listen_without_session):
            authorizer.refused.clear()
            listening = asyncio.create_task(ask())
            for _ in range(2):  # for the request, and as long as it lasts
                authorizer.was_asked.clear()
                await authorizer.was_asked.wait()
            authorizer.refused["ann"] = ProviderFault.AUTHENTICATION
            try:
                answer = await listening
            except httpx2.RemoteProtocolError:
                continue  # a part of it was sent
            assert answer.is_error
