"""Requests to the faces of an agents daemon, and the events of their answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

from support.daemons.run_daemons import Daemon, serving
from support.gateways.authorizers import FriendAuthorizer
from vibe_llms.invocables import produce_invoker
from vibe_llms.messages.contents import ImageContent

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(64)


async def pay(to: str) -> str:
    """Pays someone."""
    return f"paid {to}"


async def look() -> list[Any]:
    """Looks out of the window."""
    return ["the sea", ImageContent(data=PICTURE, name="sea.png")]


async def fail() -> str:
    """Fails."""
    raise ValueError("broken")


PAY = produce_invoker(pay, effect="once", needs_approval=True)
LOOK = produce_invoker(look)
FAIL = produce_invoker(fail)


def think(text: str) -> dict[str, Any]:
    """Return the content of a script in which the model reasons."""
    return {"reasoning": text}


@attrs.define
class Face:
    """A daemon whose runs follow a script, and the path of one of its faces."""

    daemon: Daemon
    path: str
    headers: dict[str, str] = attrs.field(factory=dict)

    @property
    def url(self) -> str:
        """Address of the face."""
        return self.daemon.url + self.path

    def write_script(self, *turns: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Write what the model answers; return the specification of runs that use it."""
        return {**self.daemon.premises.spec(*turns).export(), **more}

    async def post(self, body: Any, query: str = "") -> list[dict[str, Any]]:
        """Send a request; return the events of the answer."""
        async with self.daemon.session.post(
            self.url + query, json=body, headers=self.headers
        ) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            return read_events(await answer.read())

    async def refuse(self, body: Any) -> tuple[int, Any]:
        """Send a request that is refused; return status and body of the answer."""
        async with self.daemon.session.post(self.url, json=body, headers=self.headers) as answer:
            return answer.status, await answer.json()


def read_events(data: bytes) -> list[dict[str, Any]]:
    """Return the events of a stream, without comments and ``[DONE]``."""
    events = []
    for block in data.decode().split("\n\n"):
        if block and not block.startswith(":"):
            assert block.startswith("data: "), block
            assert "\n" not in block
            if block != "data: [DONE]":
                events.append(json.loads(block.removeprefix("data: ")))
    return events


@asynccontextmanager
async def facing(tmp_path: Path, path: str, *tools: Any, **settings: Any) -> AsyncIterator[Face]:
    """Serve the runs of a folder; yield one of the daemon's faces."""
    async with serving(tmp_path, *tools, **settings) as daemon:
        yield Face(daemon, path)


@asynccontextmanager
async def facing_friends(
    tmp_path: Path, path: str, *tools: Any
) -> AsyncIterator[tuple[Face, Face]]:
    """Serve the runs of a folder for Ann and Bob; yield the face as each of them sees it."""
    async with serving(tmp_path, *tools, authorizer=FriendAuthorizer()) as daemon:
        ann, bob = ({"Authorization": f"Bearer {who}"} for who in ("ann", "bob"))
        yield Face(daemon, path, ann), Face(daemon, path, bob)
