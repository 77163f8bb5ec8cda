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


async def test_changes_that_come_faster_than_they_are_told_are_told_together() -> None:
    """What is behind may announce as often as it likes: one looks, and looks again."""
    go_on, begun = asyncio.Event(), asyncio.Event()
    surveyed, told = 0, 0

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

        async def tell(event: Any, send: Any) -> None:
            nonlocal told
            told += 1

        server._tell = tell  # type: ignore[method-assign]
        registry.listen(lambda: None)
        before = len(asyncio.all_tasks())
        server._announce()
        await begun.wait()
        busy.resources = (produce_resource("a:", read),)
        for _ in range(100):
            server._announce()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) <= before + 2  # who looks, and whom it asks
        telling = server._announcing
        assert telling is not None
        go_on.set()
        await telling
        assert (surveyed, told, server._announcing) == (2, 1, None)
        assert [each.uri for each in server._told.resources] == ["a:"]
        await server.end()
