"""A server of tools tells of changes in what it offers."""

from __future__ import annotations

import asyncio
from typing import Any

from vibe_llms.invocables import FunctionsEnsemble, Registry, produce_resource
from vibe_llms.invocables.mcp.serving.approving import CallApprover
from vibe_llms.invocables.mcp.serving.tool_server import ToolServer


def read() -> str:
    """Something to read."""
    return ""


async def test_changes_in_quick_succession_are_announced_together() -> None:
    """What is behind may announce as often as it likes: one looks, and looks again."""
    go_on, begun = asyncio.Event(), asyncio.Event()
    surveyed, announcements = 0, 0

    class Busy(FunctionsEnsemble):
        async def survey_resources(self) -> Any:
            nonlocal surveyed
            surveyed += 1
            found = self.resources
            begun.set()
            await go_on.wait()
            return found

    busy = Busy("busy")
    async with Registry([busy]) as registry:
        server = ToolServer(registry, CallApprover())

        async def send_announcement(event: Any, send: Any) -> None:
            nonlocal announcements
            announcements += 1

        server._send_announcement = send_announcement  # type: ignore[method-assign]
        registry.listen(lambda: None)
        before = len(asyncio.all_tasks())
        server._announce()
        await begun.wait()
        busy.resources = (produce_resource("a:", read),)
        for _ in range(100):
            server._announce()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) <= before + 2  # who looks, and whom it asks
        announcing = server._announcing
        assert announcing is not None
        go_on.set()
        await announcing
        assert (surveyed, announcements, server._announcing) == (2, 1, None)
        assert [each.uri for each in server._announced_lists.resources] == ["a:"]
        await server.end()
