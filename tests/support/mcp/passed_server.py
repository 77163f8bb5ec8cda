"""MCP server over stdio, with the official package, that uses all features of the protocol."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import mcp_types as types
from mcp.server.mcpserver import Context
from pydantic import BaseModel, Field

sys.path.insert(0, str(Path(__file__).parents[2]))  # a program of its own finds `support`

from support.mcp.asking_server import produce_server


class Weight(BaseModel):
    """A weight."""

    grams: Annotated[int, Field(ge=0)]


ICON = types.Icon(src="data:image/png;base64,AAAA", mime_type="image/png", sizes=["1x1"])
server = produce_server()
low = server._lowlevel_server
low.instructions = "Weigh first."
sessions: set[Any] = set()


@server.tool(
    title="Weigh something",
    annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
    icons=[ICON],
    meta={"example.org/kind": "scales"},
)
def weigh(thing: str) -> Weight:
    """Weighs a thing."""
    return Weight(grams=len(thing))


@server.tool()
async def echo(context: Context[Any, Any]) -> types.CallToolResult:
    """Return the metadata of the call, and add metadata to the result."""
    meta: Any = dict(context.request_context.meta or {})
    await context.report_progress(1, 4, "a quarter")
    await context.debug("too fine")
    await context.warning({"beware": "dog"}, logger_name="kennel")
    metadata = {name: value for name, value in meta.items() if name.startswith("example.org/")}
    return types.CallToolResult(
        content=[
            types.TextContent(
                text="said", annotations=types.Annotations(audience=["user"], priority=0.5)
            ),
            types.ResourceLink(uri="memo://hidden", name="hidden", size=3),
        ],
        structured_content={"said": metadata},
        _meta={"example.org/answer": 42},
    )


@server.resource("memo://hidden/{name}", title="Hidden", icons=[ICON], meta={"example.org/h": 1})
def hidden(name: str) -> str:
    """A resource that is not listed."""
    return f"hidden {name}"


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
    """Create suggestions."""
    others = (context.arguments if context else None) or {}
    return types.Completion(values=[f"{argument.value}!", *others.values()], total=2)


@server.tool()
async def touch(context: Context[Any, Any]) -> str:
    """Changes the first memo, and says so to whoever has subscribed."""
    await context.notify_resource_updated("memo://first")
    for session in sessions:
        await session.send_resource_updated("memo://first")
    return "touched"


@server.tool()
async def grow(context: Context[Any, Any]) -> str:
    """Gets a further prompt."""

    def further() -> str:
        """A further prompt."""
        return "further"

    server.prompt()(further)
    await context.notify_prompts_changed()
    await context.session.send_prompt_list_changed()
    return "grown"


async def subscribe(context: Any, params: Any) -> types.EmptyResult:
    """Record a session."""
    sessions.add(context.session)
    return types.EmptyResult()


async def set_level(context: Any, params: Any) -> types.EmptyResult:
    """Record a log level, which only servers with sessions have."""
    return types.EmptyResult()


low.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
low.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, subscribe)
low.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)

if __name__ == "__main__":
    server.run()
