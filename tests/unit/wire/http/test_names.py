"""From a name to a socket: look-ups that are shared, and addresses that do not answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from vibe_llms.wire.http.names import Names, SocketAddress, connect, read_address


class Lookups:
    """Takes the place of the system's look-up, and answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.release = asyncio.Event()
        self.fails = False

    async def getaddrinfo(self, host: str, port: int, **_: Any) -> list[Any]:
        """Returns two families of addresses."""
        self.asked.append(host)
        await self.release.wait()
        if self.fails:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        six, four = (socket.AF_INET6, socket.AF_INET)
        found = [(six, ("2001:db8::1", port, 0, 0)), (six, ("2001:db8::2", port, 0, 0))]
        return [(family, 1, 6, "", address) for family, address in [*found, (four, ("x", port))]]


@pytest.fixture
async def lookups(monkeypatch: pytest.MonkeyPatch) -> Lookups:
    """Of the running loop."""
    lookups = Lookups()
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookups.getaddrinfo)
    return lookups


async def test_a_name_is_looked_up_once_for_all_who_ask(lookups: Lookups) -> None:
    """Also when who asked first has given up, and again within some minutes."""
    names = Names(asyncio.get_running_loop())
    asking = [asyncio.create_task(names.resolve("a.example", 1)) for _ in range(20)]
    await asyncio.sleep(0)
    asking.pop(0).cancel()
    lookups.release.set()

    found = await asyncio.gather(*asking)
    again = await names.resolve("a.example", 1)

    assert lookups.asked == ["a.example"]
    assert [each == again for each in found] == [True] * 19
    assert [family.name for family, _ in again] == ["AF_INET6", "AF_INET", "AF_INET6"]


async def test_a_name_that_is_not_known_is_asked_for_again(lookups: Lookups) -> None:
    """The network may have come back."""
    names = Names(asyncio.get_running_loop())
    lookups.release.set()
    lookups.fails = True
    with pytest.raises(OSError, match="not known"):
        await names.resolve("a.example", 1)
    lookups.fails = False

    assert await names.resolve("a.example", 1)


async def test_an_address_is_not_looked_up(lookups: Lookups) -> None:
    """Of either family."""
    names = Names(asyncio.get_running_loop())

    assert await names.resolve("127.0.0.1", 1) == ((socket.AF_INET, ("127.0.0.1", 1)),)
    assert await names.resolve("::1", 1) == ((socket.AF_INET6, ("::1", 1, 0, 0)),)
    assert lookups.asked == []
    assert [read_address(each, 1) for each in ("127.1", "localhost", "fe80::1%lo")] == [None] * 3


@contextmanager
def listening() -> Iterator[SocketAddress]:
    """A place that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield socket.AF_INET, server.getsockname()


@contextmanager
def refusing() -> Iterator[SocketAddress]:
    """A place where nobody is."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = server.getsockname()
    yield socket.AF_INET, place


@contextmanager
def silent() -> Iterator[SocketAddress]:
    """A place that answers nothing: its queue is full."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield socket.AF_INET, server.getsockname()


async def test_the_first_address_that_answers_is_taken() -> None:
    """Whether the one before it refuses, or says nothing; and nothing is left of the others."""
    with refusing() as gone, silent() as mute, listening() as there:
        for places in ([there], [gone, there], [mute, there], [gone, mute, there, gone]):
            made = await connect(places)
            assert made.getpeername() == there[1]
            made.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_is_written_is_sent_at_once() -> None:
    """Else a body that is too long to be written with its head waits for 40 ms."""
    with listening() as there:
        made = await connect([there])
        transport, _ = await asyncio.get_running_loop().create_connection(
            asyncio.Protocol, sock=made
        )

        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

        transport.close()
        await asyncio.sleep(0)


async def test_where_none_answers_the_first_says_why() -> None:
    """And where there is none, that is said."""
    with (
        refusing() as gone,
        refusing() as also,
        pytest.raises(ConnectionRefusedError, match=str(gone[1][1])),
    ):
        await connect([gone, also])
    with pytest.raises(OSError, match="no address"):
        await connect([])


async def test_giving_up_leaves_no_socket() -> None:
    """Cancelled while an address is silent, or while several are tried."""
    with silent() as mute, silent() as other:
        for places in ([mute], [mute, other]):
            task = asyncio.create_task(connect(places))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}
