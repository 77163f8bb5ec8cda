"""Who waits for resources to change; each is watched once, and as long as somebody waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError

from support.gateways.gateways import wait_until
from vibe_llms.invocables import produce_resource
from vibe_llms.invocables.libraries import Resource
from vibe_llms.invocables.mcp.serving.resource_subscriptions import Subscriptions


class Session:
    """A session of a client."""

    def __init__(self) -> None:
        self.exit_stack = AsyncExitStack()
        self.heard: list[Any] = []

    async def notify(self, method: str, params: Any) -> None:
        self.heard.append((method, params["uri"]))


class Spring:
    """Changes when it is told to; may break."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[bool] = asyncio.Queue()
        self.opened = self.closed = 0

    @asynccontextmanager
    async def watch(self, uri: str) -> AsyncIterator[AsyncIterator[None]]:
        self.opened += 1
        try:
            yield self._flow()
        finally:
            self.closed += 1

    async def _flow(self) -> AsyncIterator[None]:
        while await self.changes.get():
            yield
        raise OSError("dried up")


def begin(spring: Spring, limit: int = 10) -> tuple[Subscriptions, list[str], Any]:
    def read(name: str) -> str:
        """Something that changes."""
        return name

    resource = produce_resource("spring:{name}", read, watch=spring.watch)
    bus = InMemorySubscriptionBus()
    told: list[str] = []
    bus.subscribe(lambda event: told.append(getattr(event, "uri", "")))

    def find(uri: str) -> Resource | None:
        return resource if uri.startswith("spring:") else None

    return Subscriptions(bus, find, limit), told, Session()


async def test_a_resource_is_watched_once_and_as_long_as_anybody_waits() -> None:
    """Sessions and streams alike."""
    spring = Spring()
    watching, told, session = begin(spring)
    other: Any = Session()
    watching.subscribe("spring:a", session)
    watching.subscribe("spring:a", session)
    watching.subscribe("spring:a", other)
    async with watching.hold(["spring:a", "spring:a", "nothing:"]):
        await wait_until(lambda: spring.opened == 1)
        spring.changes.put_nowait(True)
        await wait_until(lambda: other.heard)
        assert session.heard == [("notifications/resources/updated", "spring:a")]
        assert told == ["spring:a"]
        watching.unsubscribe("spring:a", session)
        await other.exit_stack.aclose()  # the session has ended
        assert len(watching) == 1
    assert len(watching) == 0
    await wait_until(lambda: spring.closed == 1)
    assert spring.opened == 1
    await session.exit_stack.aclose()  # what it no longer waits for is none of its business


async def test_no_more_is_watched_than_may_be_and_nothing_behind_the_end() -> None:
    """The limit is named."""
    spring = Spring()
    watching, _, session = begin(spring, limit=1)
    watching.subscribe("spring:a", session)
    with pytest.raises(MCPError, match=r"sessions\.subscriptions = 1"):
        watching.subscribe("spring:b", session)
    with pytest.raises(MCPError, match=r"sessions\.subscriptions = 1"):
        async with watching.hold(["spring:a", "spring:b"]):
            raise AssertionError
    await wait_until(lambda: spring.opened == 1)
    await watching.close()
    assert (len(watching), spring.closed) == (0, 1)


async def test_one_client_leaves_something_to_watch_for_the_others() -> None:
    """However many sessions and streams it has; and what is watched already costs nobody more."""
    watching, _, session = begin(Spring(), limit=4)
    other: Any = Session()
    watching.subscribe("spring:a", session, "me")
    async with watching.hold(["spring:b"], "me"):
        for _ in range(2):
            with pytest.raises(MCPError, match="this client has 2; the rest is reserved"):
                watching.subscribe("spring:c", session, "me")
        watching.subscribe("spring:a", other, "you")
        with pytest.raises(MCPError, match="reserved for other"):
            async with watching.hold(["spring:b", "spring:c", "spring:d"], "you"):
                raise AssertionError
        watching.subscribe("spring:c", other, "you")
    watching.subscribe("spring:d", session, "me")  # what was held is given back
    await watching.close()


async def test_what_is_told_no_more_is_watched_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And whoever waits is told, as it may have changed meanwhile; not for ever."""
    monkeypatch.setattr("vibe_llms.invocables.owners.FIRST_SECONDS", 0.0)
    spring = Spring()
    watching, told, session = begin(spring)
    for _ in range(6):
        spring.changes.put_nowait(False)
    with caplog.at_level(logging.WARNING):
        watching.subscribe("spring:a", session)
        await wait_until(lambda: spring.closed == 6)
    assert (spring.opened, told) == (6, ["spring:a"] * 5)
    assert "spring:a is no longer watched: dried up" in caplog.text
    given_up = watching._watched["spring:a"].task
    await wait_until(given_up.done)
    later: Any = Session()
    watching.subscribe("spring:a", later)  # and from then on for whoever was there before, too
    spring.changes.put_nowait(True)
    await wait_until(lambda: later.heard)
    assert (spring.opened, len(session.heard)) == (7, 6)
    await watching.close()


async def test_a_session_that_comes_and_goes_leaves_nothing_behind() -> None:
    """It is told once that it ends, however often it wants to hear of something."""
    watching, _, session = begin(Spring())
    for uri in ("spring:a", "spring:b") * 5:
        watching.subscribe(uri, session)
        watching.unsubscribe(uri, session)
    watching.subscribe("spring:a", session)
    watching.subscribe("spring:b", session)
    assert len(session.exit_stack._exit_callbacks) == 1
    await session.exit_stack.aclose()
    assert len(watching) == 0


async def test_whoever_takes_nothing_keeps_the_others_from_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as a client that has opened its stream, and does not read it."""
    monkeypatch.setattr(
        "vibe_llms.invocables.mcp.serving.resource_subscriptions._NOTIFY_SECONDS", 0.01
    )

    class Deaf(Session):
        async def notify(self, method: str, params: Any) -> None:
            await asyncio.Event().wait()

    spring = Spring()
    watching, _, session = begin(spring)
    deaf: Any = [Deaf() for _ in range(3)]
    for each in (*deaf, session, *deaf):
        watching.subscribe("spring:a", each)
    for heard in (1, 2):
        spring.changes.put_nowait(True)
        await wait_until(lambda heard=heard: len(session.heard) == heard)
    await watching.close()
