"""The agents daemon without its database, or on a disk that is full: 503 and 507, never 500."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.daemons.run_daemons import serving
from support.runs.acting import say
from support.runs.hosted import FAST, Premises
from support.stores.postgresql_server import Server as Postgresql
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.daemons.agents.making import produce_service
from vibe_llms.daemons.agents.settings import AgentsSettings
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.logs.disk import Disk

PATHS = ("/runs", "/conversations", f"/runs/{'a' * 16}", f"/runs/{'a' * 16}/events")


async def become_ready(session: aiohttp.ClientSession, url: str) -> None:
    async with asyncio.timeout(60):
        while True:
            async with session.get(f"{url}/readyz") as answer:
                if answer.status == 200:
                    return
            await asyncio.sleep(0.05)


async def refuse_all(session: aiohttp.ClientSession, url: str, spec: Any) -> None:
    """All says that it is to be asked again later, and nothing of where the database is."""
    asked = [("GET", path, None) for path in ("/readyz", *PATHS)]
    for method, path, body in [*asked, ("POST", "/runs", spec)]:
        async with session.request(method, url + path, json=body) as answer:
            text = await answer.text()
            assert (answer.status, int(answer.headers["Retry-After"]) > 0) == (503, True), text
            for word in ("vibe@", "127.0.0.1", "user", "postgres", "port"):
                assert word not in text, (path, text)
    async with session.get(f"{url}/healthz") as answer:
        assert answer.status == 200


@pytest.mark.postgresql
async def test_it_waits_for_its_database_at_the_start_and_later(tmp_path: Path) -> None:
    database = Postgresql()
    store = PostgresqlStore(database.url)
    database.kill()
    try:
        premises = Premises(tmp_path, shared=store)
        spec = {**premises.spec([say("Done.")]).export(), "ensembles": [], "input": "Do it."}
        service = produce_service(premises.runs.application, store, AgentsSettings(), hosting=FAST)
        server = Server(service, ServerSettings(port=0))
        async with asyncio.timeout(300), server, aiohttp.ClientSession() as session:
            url = server.urls[0]
            await refuse_all(session, url, spec)
            database.start()
            await become_ready(session, url)
            async with session.post(f"{url}/runs", json=spec) as answer:
                assert answer.status == 201, await answer.text()
                run_id = (await answer.json())["id"]
            database.kill()
            async with asyncio.timeout(60):  # what was seen a moment ago holds for a second
                while True:
                    async with session.get(f"{url}/readyz") as answer:
                        if answer.status == 503:
                            break
                    await asyncio.sleep(0.05)
            await refuse_all(session, url, spec)
            database.start()
            await become_ready(session, url)
            async with asyncio.timeout(60):
                while True:
                    async with session.get(f"{url}/runs/{run_id}") as answer:
                        told = await answer.json()
                    if told.get("state") == "ended":
                        break
                    await asyncio.sleep(0.05)
            assert told["reason"] == "answered"
    finally:
        store.database.close()
        database.close()


async def test_a_run_that_finds_no_room_is_refused_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no fault of the daemon's, and nothing is said of its files."""
    write = Disk.write
    is_full = True

    def fill(self: Disk, descriptor: int, data: bytes) -> None:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path))
        write(self, descriptor, data)

    monkeypatch.setattr(Disk, "write", fill)
    async with serving(tmp_path) as daemon:
        assert isinstance(daemon.premises.store, DirectoryStore)
        spec = {**daemon.premises.spec([say("Done.")]).export(), "ensembles": []}
        status, told = await daemon.ask("POST", "/runs", {**spec, "input": "Do it."})
        assert (status, str(tmp_path) in str(told)) == (507, False)
        is_full = False
        status, _ = await daemon.ask("POST", "/runs", {**spec, "input": "Do it."})
        assert status == 201
