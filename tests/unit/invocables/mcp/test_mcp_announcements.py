"""What a server announces while nobody hears it is asked for once it is heard again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.client.subscriptions import SubscriptionLost

from vibe_llms.invocables.mcp import connections

MANY = len(connections._LISTEN_SECONDS)


class Announcer:
    """A client whose stream of announcements does, each time, what the next word says.

    ``breaks`` opens and breaks off; ``fails`` cannot be opened; ``stays`` opens and ends with us.
    """

    def __init__(self, *plan: str, announces: bool = True) -> None:
        tools = SimpleNamespace(list_changed=announces)
        self.server_capabilities = SimpleNamespace(tools=tools, prompts=None, resources=None)
        self.plan = list(plan)
        self.heard: list[str] = []
        self.is_open = asyncio.Event()

    @contextlib.asynccontextmanager
    async def listen(self, **wanted: Any) -> AsyncIterator[AsyncIterator[None]]:
        assert wanted == {"tools_list_changed": True}
        what = self.plan.pop(0)
        self.heard.append(what)
        if what == "fails":
            raise SubscriptionLost
        yield self._announce(what)

    async def _announce(self, what: str) -> AsyncIterator[None]:
        if what == "breaks":
            raise SubscriptionLost
        self.is_open.set()
        await asyncio.Event().wait()
        yield

    def change(self) -> None:
        self.heard.append("asked again")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_LISTEN_SECONDS", (0.0,) * MANY)


async def listen(client: Announcer) -> list[str]:
    """Listens until the stream stays open, or is given up; returns what happened in order."""
    listening = asyncio.ensure_future(connections._listen(client, client.change))  # type: ignore[arg-type]
    opening = asyncio.ensure_future(client.is_open.wait())
    async with asyncio.timeout(60):
        await asyncio.wait({listening, opening}, return_when=asyncio.FIRST_COMPLETED)
    for task in (listening, opening):
        task.cancel()
    await asyncio.gather(listening, opening, return_exceptions=True)
    return client.heard


@pytest.mark.parametrize(
    ("plan", "heard"),
    [
        (["stays"], ["stays"]),
        (["breaks", "stays"], ["breaks", "stays", "asked again"]),
        (["breaks", "fails", "fails", "stays"], ["breaks", *["fails"] * 2, "stays", "asked again"]),
        (
            ["breaks", "breaks", "stays"],
            ["breaks", "breaks", "asked again", "stays", "asked again"],
        ),
        (["fails"] * MANY, ["fails"] * MANY),
    ],
)
async def test_tools_are_asked_for_again_after_the_announcements_broke_off(
    plan: list[str], heard: list[str]
) -> None:
    """Once each time that they are heard again; one who stays silent is not asked for ever."""
    assert await listen(Announcer(*plan)) == heard


async def test_a_stream_that_holds_is_forgiven_what_was_before() -> None:
    """Only failures in a row end the listening."""
    plan = ["fails"] * (MANY - 1) + ["breaks"] + ["fails"] * (MANY - 2) + ["stays"]

    assert (await listen(Announcer(*plan)))[-2:] == ["stays", "asked again"]


async def test_a_server_that_announces_nothing_is_not_listened_to() -> None:
    """It has said so when it was connected."""
    assert await listen(Announcer(announces=False)) == []
