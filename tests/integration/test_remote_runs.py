"""The runs of a daemon over connections that break, and addresses where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from support.gateways.authorizers import FriendAuthorizer
from support.runs.acting import invoke, say
from support.runs.hosted import FAST, Premises
from vibe_llms.agents.remote import RemoteRuns, connect
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.daemons.agents.making import produce_service
from vibe_llms.daemons.agents.settings import AgentsSettings
from vibe_llms.daemons.gateway.making import produce_service as produce_gateway
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.exceptions import (
    AccessError,
    ConfigurationError,
    ConverseError,
    RequestError,
    TransportError,
)
from vibe_llms.invocables import produce_invoker
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.contents import ImageContent
from vibe_llms.testing.clocks import HurriedClock


def pay() -> str:
    """Pays."""
    return "paid"


PAY = produce_invoker(pay, effect="once", needs_approval=True)


def produce_server(
    premises: Premises, port: int = 0, attached_seconds: int = 30, **settings: Any
) -> Server:
    async def produce_tools(_: Any) -> Any:
        return premises.tools

    service = produce_service(
        premises.runs.application,
        premises.store,
        AgentsSettings(attached_seconds=attached_seconds),
        produce_tools=produce_tools,
        hosting=FAST,
        **settings,
    )
    return Server(service, ServerSettings(port=port))


@asynccontextmanager
async def cutting(port: int, cuts: Iterable[int]) -> AsyncIterator[str]:
    """A proxy that cuts each connection after so many bytes of what comes back.

    Yields:
        Where it is.
    """
    rest = iter(cuts)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        left = next(rest)
        sending = asyncio.create_task(_copy(reader, there_writer))
        with suppress(OSError):
            while left > 0 and (data := await there_reader.read(left)):
                writer.write(data)
                await writer.drain()
                left -= len(data)
        sending.cancel()
        for each in (writer, there_writer):
            each.transport.abort()

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


async def watch(runs: RemoteRuns, run_id: str, **more: Any) -> list[LoggedEvent]:
    async with asyncio.timeout(60), aclosing(runs.watch(run_id, **more)) as told:
        return [event async for event in told if isinstance(event, LoggedEvent)]


async def wait_until_stopped(runs: RemoteRuns, run_id: str) -> None:
    while True:
        if (await runs.find(run_id)).state == "stopped":
            return
        await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("step", [250, 331, 700, 1_500])
async def test_a_broken_stream_goes_on_where_it_was(tmp_path: Path, step: int) -> None:
    """However often it is cut, within a head or an event, each event comes once."""
    premises = Premises(tmp_path)
    async with asyncio.timeout(60), produce_server(premises) as server:
        async with connect(server.urls[0]) as runs:
            spec = premises.spec([say("Done.")], [say("Done.")])
            run_id = (await runs.start(spec, [UserCanister("Do it.")])).id
            await watch(runs, run_id, follow=False)
        logged = list(premises.store.open_log(run_id).read())
        port = int(server.urls[0].rpartition(":")[2])
        cuts = chain(range(step, 4_000, step), repeat(1 << 20))
        async with (
            cutting(port, cuts) as address,
            connect(address, clock=HurriedClock()) as runs,
        ):
            assert await watch(runs, run_id, follow=False) == logged


async def test_whoever_watches_hears_on_after_the_daemon_was_started_again(tmp_path: Path) -> None:
    premises = Premises(tmp_path)
    heard: list[LoggedEvent] = []
    async with asyncio.timeout(60):
        async with produce_server(premises) as server:
            address = server.urls[0]
            runs = connect(address)
            spec = premises.spec([say("Done.")], [say("Done.")])
            run_id = (await runs.start(spec, [UserCanister("Do it.")])).id
            before = await watch(runs, run_id, follow=False)
            joined = asyncio.Event()

            async def listen() -> None:
                async with aclosing(runs.watch(run_id)) as told:
                    async for event in told:
                        if isinstance(event, LoggedEvent):
                            heard.append(event)
                        if len(heard) == len(before):
                            joined.set()
                        if len(heard) > len(before) and event.event.type == "run.ended":
                            return

            listening = asyncio.create_task(listen())
            await joined.wait()
        async with produce_server(premises, int(address.rpartition(":")[2])):
            await runs.send(run_id, UserCanister("Once more."))
            await listening
        await runs.close()
    assert heard == list(premises.store.open_log(run_id).read())


async def test_nobody_waits_for_ever_for_a_daemon_that_has_gone(tmp_path: Path) -> None:
    premises = Premises(tmp_path)
    async with asyncio.timeout(60):
        async with produce_server(premises) as server:
            runs = connect(server.urls[0], clock=HurriedClock())
            spec = premises.spec([say("Done.")])
            run_id = (await runs.start(spec, [UserCanister("Do it.")])).id
            told = runs.watch(run_id)
            await anext(told)
        with pytest.raises(TransportError):
            async for _ in told:
                pass
        with pytest.raises(TransportError):
            await runs.find(run_id)
        await runs.close()


async def test_a_key_that_nobody_knows_is_refused_and_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Strict(FriendAuthorizer):
        async def authorize(self, arrival: Any) -> Any:
            if arrival.credential != "friend":
                detail = f"Not {arrival.credential}."
                raise AccessError(fault="authentication", detail=detail, remedy="Ask Ann.")
            return self.Grant(self, arrival.credential)

    premises = Premises(tmp_path)
    async with asyncio.timeout(60), produce_server(premises, authorizer=Strict()) as server:
        async with connect(server.urls[0], key="stranger-4711") as runs:
            for ask in (runs.survey(), watch(runs, "any")):
                with pytest.raises(AccessError) as caught:
                    await ask
                assert "stranger-4711" not in f"{caught.value}{caught.value.__dict__}"
                assert str(caught.value).endswith("Ask Ann. Set it in VIBE_AGENTS_KEY.")
        monkeypatch.setenv("VIBE_AGENTS_KEY", "friend")
        async with connect(server.urls[0]) as runs:
            assert await runs.survey() == ()
            assert "friend" not in repr(runs.connection)


@pytest.mark.slow
async def test_an_attached_run_ends_with_its_watchers_and_others_go_on(tmp_path: Path) -> None:
    """To disconnect ends it after a while; whoever watches, or has detached it, keeps it going."""
    premises = Premises(tmp_path, tools=[PAY])
    said = [UserCanister("Do it.")]
    async with (
        asyncio.timeout(60),
        produce_server(premises, attached_seconds=2) as server,
        connect(server.urls[0]) as runs,
    ):
        turns = ([invoke("pay")], [say("Done.")])
        spec, own = premises.spec(*turns, attached=True), premises.spec(*turns)
        detached = (await runs.start(spec, said)).id
        await runs.detach(detached)
        left = (await runs.start(spec, said)).id
        plain = (await runs.start(own, said)).id
        watched = (await runs.start(spec, said)).id
        async with aclosing(runs.watch(watched)) as told:
            await anext(told)
            await wait_until_stopped(runs, left)
            assert "disconnected" in (await runs.find(left)).detail
            states = [(await runs.find(each)).state for each in (watched, detached, plain)]
            assert "stopped" not in states
        await wait_until_stopped(runs, watched)
        assert (await runs.find(detached)).state == "waiting"


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8010", "", "ftp://there", "http://there?x=secret-word", "https://"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="Invalid address of an agents daemon") as caught:
        connect(address)
    assert "secret-word" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tail", ["/runs", "/page/"])
async def test_what_was_copied_with_an_address_is_named(tmp_path: Path, tail: str) -> None:
    async with (
        asyncio.timeout(60),
        produce_server(Premises(tmp_path)) as server,
        connect(server.urls[0] + tail) as runs,
    ):
        for ask in (runs.survey(), runs.find("any"), runs.stop("any")):
            with pytest.raises(ConverseError, match=f"Remove {tail.rstrip('/')} from"):
                await ask


async def test_a_gateway_is_no_agents_daemon(tmp_path: Path) -> None:
    service = produce_gateway(Premises(tmp_path).runs.application)
    async with (
        asyncio.timeout(60),
        Server(service, ServerSettings(port=0)) as server,
        connect(server.urls[0]) as runs,
    ):
        for ask in (runs.survey(), runs.find("any"), watch(runs, "any"), runs.stop("any")):
            with pytest.raises(ConverseError, match="is not an agents daemon") as caught:
                await ask
            assert "\n" not in str(caught.value)


async def test_what_cannot_be_said_over_http_is_refused_here(tmp_path: Path) -> None:
    picture = UserCanister(ImageContent(url="https://example.org/a.png", mime_type="image/png"))
    async with connect("http://127.0.0.1:1") as runs:
        with pytest.raises(RequestError, match="texts"):
            await runs.send("any", picture)
        with pytest.raises(RequestError, match="the key decides"):
            await runs.survey(subject="somebody")
