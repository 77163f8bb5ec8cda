"""What holds for every request of a daemon, whatever it does: one made of routes of tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest

from support.gateways.gateways import wait_until
from support.network.serving import Served, compose_request
from vibe_llms.daemons.admission import ServiceLimits
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.health import add_health
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Handler, Route, write_plain_error
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.daemons.service import Service
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.version import __version__


@attrs.define(kw_only=True)
class Daemon(Served):
    """A daemon under way; what is known of its requests when they are over."""

    service: Service
    records: list[CallRecord]


@asynccontextmanager
async def running(
    limits: ServiceLimits | None = None, **handlers: Handler
) -> AsyncIterator[Daemon]:
    """Serves handlers, each at a path of its name."""
    records: list[CallRecord] = []
    produce = partial(Route, method="GET", write_error=write_plain_error)
    routes = [produce(pattern=f"/{name}", handler=each) for name, each in handlers.items()]
    service = Service(routes, limits=limits, listeners=[records.append])
    add_health(service)
    async with Server(service, ServerSettings(port=0)) as server:
        port = int(server.urls[0].rpartition(":")[2])
        daemon = Daemon(server=server, port=port, service=service, records=records)
        try:
            yield daemon
        finally:
            for client in daemon.clients:
                client.leave()


async def test_what_takes_too_long_is_told_so_before_the_server_loses_patience() -> None:
    """With a status and words of the path's own; what has begun is cut."""

    async def dawdle(call: HttpCall, record: CallRecord) -> None:
        await asyncio.sleep(60)

    async def drip(call: HttpCall, record: CallRecord) -> None:
        await call.begin(200, {})
        await call.send(b"one")
        await asyncio.sleep(60)

    limits = ServiceLimits(total_seconds=0.2)
    async with running(limits, dawdle=dawdle, drip=drip) as daemon:
        answer = await (await daemon.connect()).ask(compose_request(path="/dawdle"))
        cut = await daemon.connect()
        await cut.write(compose_request(path="/drip"))
        dripped = await asyncio.wait_for(cut.read_all(), 60)

    assert answer.status == 504
    assert "total_seconds" in json.loads(answer.body)["error"]["message"]
    assert dripped.endswith(b"3\r\none\r\n")
    assert ServiceLimits().total_seconds < ServerSettings().total_seconds


async def test_the_time_of_a_request_begins_when_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it waits for its turn counts; else the server would lose patience first."""
    go, loop = asyncio.Event(), asyncio.get_running_loop()
    read, ahead = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: read() + ahead)

    async def hold(call: HttpCall, record: CallRecord) -> None:
        await go.wait()
        await call.answer(200, b"", {})

    limits = ServiceLimits(requests=1, waiting_seconds=3_600, total_seconds=300)
    async with running(limits, hold=hold) as daemon:
        clients = [await daemon.connect() for _ in range(2)]
        for client in clients:
            await client.write(compose_request(path="/hold"))
        await wait_until(lambda: daemon.service.waiting_count == 1)
        ahead = 300.0  # which is the time of both, and not of one after the other
        answers = [await asyncio.wait_for(client.read(), 60) for client in clients]

    assert [each.status for each in answers] == [504, 504]


async def test_a_client_that_leaves_the_queue_is_noticed_there() -> None:
    """Nobody has to answer first."""
    go = asyncio.Event()

    async def hold(call: HttpCall, record: CallRecord) -> None:
        await go.wait()
        await call.answer(200, b"", {})

    async with running(ServiceLimits(requests=1), hold=hold) as daemon:
        first, second = await daemon.connect(), await daemon.connect()
        await first.write(compose_request(path="/hold"))
        await wait_until(lambda: daemon.service.busy_count == 1)
        await second.write(compose_request(path="/hold"))
        await wait_until(lambda: daemon.service.waiting_count == 1)
        second.leave()

        await wait_until(lambda: daemon.service.waiting_count == 0)
        assert [each.error for each in daemon.records] == ["client-gone"]
        assert daemon.records[0].status == 499
        go.set()
        assert (await first.read()).status == 200
        assert daemon.service.busy_count == 0


async def test_who_has_had_to_wait_is_answered_as_others_are() -> None:
    """What is watched while it waits is let be afterwards: a handler says what a leaving ends."""
    begun: list[HttpCall] = []
    ended: list[HttpCall] = []
    go = asyncio.Event()

    async def hold(call: HttpCall, record: CallRecord) -> None:
        begun.append(call)
        await go.wait()
        ended.append(call)
        await call.answer(200, b"", {})
        go.clear()

    async with running(ServiceLimits(requests=1), hold=hold) as daemon:
        first, second = await daemon.connect(), await daemon.connect()
        await first.write(compose_request(path="/hold"))
        await wait_until(lambda: daemon.service.busy_count == 1)
        await second.write(compose_request(path="/hold"))
        await wait_until(lambda: daemon.service.waiting_count == 1)
        go.set()
        await wait_until(lambda: len(begun) == 2)
        second.leave()
        await wait_until(lambda: len(daemon.server.connections) == 1)
        go.set()

        await wait_until(lambda: len(ended) == 2)


@pytest.mark.slow
async def test_who_is_sent_away_before_anything_was_said_is_to_come_again() -> None:
    """What goes on for as long as its client stays ends when we do: not with a fault of ours."""
    standing: list[tuple[HttpCall, asyncio.Task[object]]] = []

    async def watch(call: HttpCall, record: CallRecord) -> None:
        task = asyncio.current_task()
        assert task is not None
        standing.append((call, task))
        if call.query:
            await call.begin(200, {})  # which is sent with the first piece
        await asyncio.Event().wait()

    async with running(watch=watch) as daemon:
        clients = [await daemon.connect() for _ in range(2)]
        for client, path in zip(clients, ("/watch", "/watch?begun=yes"), strict=True):
            await client.write(compose_request(path=path))
        await wait_until(lambda: len(standing) == 2)
        draining = asyncio.create_task(daemon.server.drain())
        await wait_until(lambda: not daemon.service.is_ready)
        for call, task in standing:
            call.disconnect(task)
        assert [(await client.read()).status for client in clients] == [503, 503]
        await draining


async def test_it_is_not_ready_from_the_moment_that_it_drains() -> None:
    """Also for who has asked on a connection that is still answered."""
    go = asyncio.Event()

    async def drip(call: HttpCall, record: CallRecord) -> None:
        await call.begin(200, {})
        await call.send(b"one")
        await go.wait()
        await call.finish()

    async with running(drip=drip) as daemon:
        client = await daemon.connect()
        assert (await client.ask(compose_request(path="/readyz"))).status == 200
        await client.write(compose_request(path="/drip") + compose_request(path="/readyz"))
        await client.read_head()
        await client.read_chunk()
        draining = asyncio.create_task(daemon.server.drain())
        await wait_until(lambda: not daemon.service.is_ready)
        go.set()
        assert await client.read_chunk() == b""
        answer = await client.read()
        await draining

    assert answer.status == 503
    assert json.loads(answer.body) == {"status": "not ready"}


async def test_a_client_that_leaves_while_it_is_told_of_an_error_is_taken_down() -> None:
    """With what it would have been told."""
    left = asyncio.Event()

    async def refuse(call: HttpCall, record: CallRecord) -> None:
        await left.wait()
        await asyncio.sleep(0.1)
        raise RequestError(path="x", detail="A bad x.")

    async with running(refuse=refuse) as daemon:
        client = await daemon.connect()
        await client.write(compose_request(path="/refuse"))
        await wait_until(lambda: daemon.service.busy_count == 1)
        client.leave()
        left.set()
        await wait_until(lambda: daemon.records)

    (record,) = daemon.records
    assert record.error == "client-gone"
    assert "A bad x." in record.detail


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_it_says_what_it_is(method: str) -> None:
    """At the top, where load balancers and coding agents look first."""
    async with running() as daemon:
        client = await daemon.connect()
        for path in ("/", "/healthz", "/readyz", "/metrics", "/openapi.json"):
            answer = await client.ask(compose_request(method, path), method=method)
            assert answer.status == 200, path
            assert int(answer.headers["content-length"]) > 0
            assert bool(answer.body) is (method == "GET")
        refused = await client.ask(compose_request("POST", "/", body=b""))
        assert refused.status == 405
        assert refused.headers["allow"] == "GET, HEAD"
        if method == "GET":
            told = json.loads((await client.ask(compose_request(path="/"))).body)
            assert told["version"] == __version__
            assert told["description"] == "/openapi.json"
