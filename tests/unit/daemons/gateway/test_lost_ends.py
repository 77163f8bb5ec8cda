"""Ends of responses that could not be written: whoever follows hears of one nevertheless."""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.gateways.gateways import wait_until
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.responses import rows
from vibe_llms.daemons.gateway.responses.background import Background, BackgroundRun
from vibe_llms.daemons.gateway.responses.endings import Endings
from vibe_llms.daemons.gateway.responses.registry import ResponseDatabase
from vibe_llms.daemons.gateway.responses.rows import GatewayResponse
from vibe_llms.foundation.limits import Limits

SCOPE: Any = {"type": "http", "method": "POST", "path": "/v1/responses", "headers": []}
BEGUN = GatewayResponse(id="resp_1", subject="", address="a:b", conversation="c", status="queued")
REFUSING = (
    "CREATE TEMP TRIGGER refuse BEFORE INSERT ON responses BEGIN SELECT RAISE(ABORT, ''); END"
)


async def test_a_follower_hears_the_end_of_what_failed_on_a_full_disk(tmp_path: Path) -> None:
    """Nor does anything of the run stay in memory; the end is written when there is room."""
    registry, room = ResponseDatabase(tmp_path), asyncio.Event()
    endings = Endings(registry, room.wait)  # type: ignore[arg-type]  # what it returns is of no use
    background = Background(registry, Limits(), endings)
    await registry.perform(partial(rows.write_response, response=BEGUN))

    async def fail(scope: Any, receive: Any, send: Any) -> None:
        await registry.perform(lambda db: db.execute(REFUSING))
        raise ConnectionError

    async def receive() -> Any:
        raise AssertionError("The request has a body of its own.")

    background.service = fail
    call = HttpCall(SCOPE, receive, receive, request_id="", limit=0)  # type: ignore[arg-type]
    run = background.start(call, b"{}", None, BEGUN.id)
    assert [data async for data in run.follow(-1)] == []
    assert background.find(BEGUN.id) is None
    assert (await endings.correct(BEGUN)).status == "failed"
    assert await find_status(registry) == "queued"

    await registry.perform(lambda db: db.execute("DROP TRIGGER refuse"))
    room.set()
    await wait_until(lambda: not endings._unwritten)
    assert await find_status(registry) == "failed"
    await endings.close()
    await registry.close()


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "unread"])
async def test_a_follower_hears_the_end_of_what_was_refused_in_another_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    """As a proxy refuses that speaks Latin-1; nor is the end lost with what cannot be read."""
    if not is_read:
        monkeypatch.setattr(
            BackgroundRun, "read_error", lambda run: run.frames[0]
        )  # breaks: there is none
    registry = ResponseDatabase(tmp_path)
    endings = Endings(registry, asyncio.Event().wait)  # type: ignore[arg-type]  # as above
    background = Background(registry, Limits(), endings)
    await registry.perform(partial(rows.write_response, response=BEGUN))

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 502, "headers": []})
        await send({"type": "http.response.body", "body": b'{"error":{"message":"\xe9teint"}}'})

    async def receive() -> Any:
        raise AssertionError("The request has a body of its own.")

    background.service = refuse
    call = HttpCall(SCOPE, receive, receive, request_id="", limit=0)  # type: ignore[arg-type]
    run = background.start(call, b"{}", None, BEGUN.id)
    async with asyncio.timeout(60):
        assert [data async for data in run.follow(-1)] == []
    assert background.find(BEGUN.id) is None
    assert (await endings.correct(BEGUN)).status == ("queued" if is_read else "failed")
    assert await find_status(registry) == "failed"
    await endings.close()
    await registry.close()


async def find_status(registry: ResponseDatabase) -> str:
    """Returns what is on the disk."""

    def find(db: sqlite3.Connection) -> str:
        found = rows.find_response(db, BEGUN.id)
        assert found is not None
        return found.status

    return await registry.perform(find)


async def test_an_event_that_is_no_object_is_left_out() -> None:
    """An error would end the answer before its last events."""
    run = BackgroundRun("resp_1", Limits())
    headers = [(b"content-type", b"text/event-stream")]
    await run.receive({"type": "http.response.start", "status": 200, "headers": headers})
    for data in (b"4", b"[1]", b'"a"', b'{"type":"response.created","sequence_number":0}'):
        await run.receive({"type": "http.response.body", "body": b"data: %b\n\n" % data})
    assert [number for number, _ in run.frames] == [0]
