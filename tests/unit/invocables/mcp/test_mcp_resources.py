"""What a server has besides tools, for the host and for a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError

from support.mcp.asking_server import produce_server
from vibe_llms.exceptions import EnsembleError
from vibe_llms.invocables import InvocationContext, perform
from vibe_llms.invocables.mcp import McpServer
from vibe_llms.invocables.mcp.resources import (
    ENTRIES_LIMIT,
    PAGES_LIMIT,
    ResourceEntry,
    ResourceShelf,
)
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.contents import ImageContent

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


@attrs.define(eq=False)
class Connected:
    """A server that is connected within this process."""

    client: Client

    async def request(self, request: Any, what: str, *, seconds: float | None) -> Any:
        try:
            return await request(self.client)
        except MCPError as error:
            raise EnsembleError(ensemble="memos", detail=f"cannot {what}: {error}") from error


@asynccontextmanager
async def open_shelf(
    mode: str = "legacy", memos: Any = None, **fields: Any
) -> AsyncIterator[tuple[ResourceShelf, Connected]]:
    async def hear(message: Any) -> None:
        shelf.notice(message)

    server = McpServer(**{"name": "memos", "command": "none", **fields})
    memos = memos or produce_server()
    async with Client(memos, mode=mode, cache=None, message_handler=hear) as client:
        connected = Connected(client)
        shelf = ResourceShelf(server, connected.request)
        yield shelf, connected


async def invoke(shelf: ResourceShelf, name: str, **arguments: Any) -> Outcome:
    [invoker] = [each for each in await shelf.survey() if each.name == name]
    return await perform(invoker, arguments, InvocationContext())


@ERAS
async def test_resources_are_listed_and_then_templates(mode: str) -> None:
    """With what a reader wants to know."""
    async with open_shelf(mode) as (shelf, _):
        entries = await shelf.list_resources()

    assert entries == (
        ResourceEntry(
            uri="memo://first",
            name="first",
            description="The first memo.",
            mime_type="text/plain",
        ),
        ResourceEntry(uri="memo://picture", name="picture", mime_type="image/png"),
        ResourceEntry(
            uri="memo://day/{day}",
            name="of_day",
            description="The memo of a day.",
            mime_type="text/plain",
            is_template=True,
        ),
    )


@ERAS
async def test_a_resource_is_read(mode: str) -> None:
    """Texts and data, each after a line that says which resource it is of."""
    async with open_shelf(mode) as (shelf, _):
        _, text = await shelf.read_resource("memo://first")
        _, picture = await shelf.read_resource("memo://picture")
        _, day = await shelf.read_resource("memo://day/friday")
        with pytest.raises(EnsembleError, match=r"memo://nothing"):
            await shelf.read_resource("memo://nothing")

    assert (text.text, day.text) == ("remember", "memo of friday")
    assert picture == ImageContent(mime_type="image/png", data=b"\x89PNG")


@ERAS
async def test_a_prompt_is_filled_in_and_begins_a_conversation(mode: str) -> None:
    """One canister a message, in the roles that the server wrote."""
    async with open_shelf(mode) as (shelf, _):
        [prompt] = await shelf.list_prompts()
        user, assistant = await shelf.get_prompt("greet", {"name": "Ada"})
        with pytest.raises(EnsembleError, match="greet"):
            await shelf.get_prompt("greet")

    assert [(each.name, each.is_required) for each in prompt.arguments] == [
        ("name", True),
        ("style", False),
    ]
    assert isinstance(user, UserCanister)
    assert isinstance(assistant, AssistantCanister)
    assert user.content[0].text == "Greet Ada, short."


@ERAS
async def test_a_model_finds_and_reads(mode: str) -> None:
    """Two invokers, whatever the number of resources."""
    async with open_shelf(mode, needs_approval=False) as (shelf, _):
        listed = await invoke(shelf, "list_resources")
        found = await invoke(shelf, "list_resources", search="DAY")
        nothing = await invoke(shelf, "list_resources", search="elephant")
        read = await invoke(shelf, "read_resource", uri="memo://first")
        failed = await invoke(shelf, "read_resource", uri="memo://day/none")

    assert listed.text.count("\n") == 2
    assert found.text == "memo://day/{day} (of_day, text/plain): The memo of a day."
    assert nothing.text == "No resources."
    assert read.text == "[resource memo://first, text/plain]\nremember"
    assert failed.is_error
    assert "no such day" in failed.text


async def test_reading_needs_an_approval_as_tools_do_and_listing_none() -> None:
    """An address can carry out what a model knows."""
    async with open_shelf() as (shelf, _):
        lister, reader = await shelf.survey()
    async with open_shelf(allowed=["read_*"]) as (shelf, _):
        _, allowed = await shelf.survey()

    assert not lister.needs_approval
    assert reader.needs_approval
    assert not allowed.needs_approval


async def test_changes_of_a_resource_are_told_over_a_stream_that_is_listened_to() -> None:
    """So it is in the era without sessions."""
    async with (
        asyncio.timeout(60),
        open_shelf("auto") as (shelf, connected),
        shelf.watch("memo://first") as changes,
    ):
        await connected.client.call_tool("change", {})
        await anext(changes)


class Wrapped:
    """Another client, as there is after a restart."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


async def test_changes_of_a_resource_are_told_to_whoever_has_subscribed() -> None:
    """So it is in the era of sessions; a server that was started again is told again.

    The subscription ends with the last who watches.
    """
    asked: list[str] = []

    async def subscribe(context: Any, parameters: Any) -> types.EmptyResult:
        asked.append(f"subscribe {parameters.uri}")
        return types.EmptyResult()

    async def unsubscribe(context: Any, parameters: Any) -> types.EmptyResult:
        asked.append(f"unsubscribe {parameters.uri}")
        return types.EmptyResult()

    async def change(context: Any, parameters: Any) -> types.ListResourcesResult:
        await context.session.send_resource_updated("memo://first")
        return types.ListResourcesResult(resources=[])

    async def describe(context: Any, parameters: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[])

    server: Any = Server(
        "memos",
        on_list_resource_templates=describe,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_list_resources=change,
    )
    async with open_shelf("legacy", server) as (shelf, connected):
        async with (
            asyncio.timeout(60),
            shelf.watch("memo://first") as first,
            shelf.watch("memo://first") as second,
        ):
            await connected.client.list_resources()
            await anext(first)
            await anext(second)
            connected.client = Wrapped(connected.client)
            await shelf.survey()
            await anext(first)

        assert not shelf._waiting
    assert asked == ["subscribe memo://first"] * 3 + ["unsubscribe memo://first"]


async def test_a_model_is_offered_nothing_where_there_is_nothing() -> None:
    """Servers say that they have resources because they could; some cannot even be asked."""
    empty: Any = MCPServer("empty")
    mute: Any = Server("mute")

    for memos in (empty, mute):
        for mode in ("legacy", "auto"):
            async with open_shelf(mode, memos) as (shelf, _):
                assert await shelf.survey() == ()
                assert await shelf.list_prompts() == ()


@pytest.mark.slow
async def test_lists_that_never_end_are_ended() -> None:
    """By pages, and by what is on them."""
    turned = 0

    class Endless:
        server_capabilities = attrs.make_class("Able", {"prompts": attrs.field(default=True)})()

        async def list_prompts(self, cursor: str | None) -> Any:
            nonlocal turned
            turned += 1
            found = [Found() for _ in range(size)]
            return attrs.make_class("Page", ["prompts", "next_cursor"])(found, "more")

    @attrs.define
    class Found:
        name: str = "again"
        title: str | None = None
        description: str | None = None
        arguments: None = None

    request = Connected(Endless()).request
    shelf = ResourceShelf(McpServer(name="memos", command="none"), request)
    size = 1
    assert len(await shelf.list_prompts()) == PAGES_LIMIT == turned
    size, turned = ENTRIES_LIMIT + 1, 0
    assert len(await shelf.list_prompts()) == ENTRIES_LIMIT
    assert turned == 1
