"""MCP server with the official package whose tools send requests to their caller."""

from __future__ import annotations

from typing import Annotated, Literal

import mcp_types as types
from mcp.server.mcpserver import (
    AcceptedElicitation,
    CancelledElicitation,
    Context,
    DeclinedElicitation,
    Elicit,
    MCPServer,
    Resolve,
    Sample,
)
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage
from mcp.server.mcpserver.resolve import ListRoots
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, Field


class Place(BaseModel):
    """Form for a user."""

    name: str = Field(description="of the place", min_length=2)
    kind: Literal["sea", "hill"] = "hill"
    height: int = 10


def sample(question: str, tokens: int = 100) -> Sample:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=question))
    return Sample([message], max_tokens=tokens, system_prompt="Be brief.", temperature=0.5)


def sample_with_tools(question: str) -> Sample:
    """Return a sampling request with an earlier call of the server's tool."""
    call = types.ToolUseContent(id="a", name="look", input={"at": "sea"})
    result = types.ToolResultContent(tool_use_id="a", content=[types.TextContent(text="blue")])
    return Sample(
        [
            types.SamplingMessage(role="user", content=types.TextContent(text=question)),
            types.SamplingMessage(role="assistant", content=call),
            types.SamplingMessage(role="user", content=result),
        ],
        max_tokens=100,
        tools=[types.Tool(name="look", input_schema={"type": "object"})],
    )


def elicit(message: str) -> Elicit[Place]:
    return Elicit(message, Place)


def list_roots() -> ListRoots:
    return ListRoots()


Outcome = AcceptedElicitation[Place] | DeclinedElicitation | CancelledElicitation


def produce_server() -> MCPServer:
    """Return the server."""
    server = MCPServer("curious")

    @server.tool()
    def ask_model(
        question: str,
        answer: Annotated[types.CreateMessageResult, Resolve(sample)],
        tokens: int = 100,
    ) -> str:
        """Asks a model."""
        content = answer.content
        assert isinstance(content, types.TextContent)
        return f"{answer.model} said {content.text} ({answer.stop_reason})"

    @server.tool()
    def ask_with_tools(
        question: str,
        answer: Annotated[types.CreateMessageResultWithTools, Resolve(sample_with_tools)],
    ) -> str:
        """Asks a model, and lets it call tools of the server."""
        return (
            " ".join(
                f"{block.name}({block.input})" if block.type == "tool_use" else block.type
                for block in answer.content_as_list
            )
            + f" {answer.stop_reason}"
        )

    @server.tool()
    def ask_person(message: str, answer: Annotated[Outcome, Resolve(elicit)]) -> str:
        """Asks a person."""
        if isinstance(answer, AcceptedElicitation):
            return f"{answer.data.name} {answer.data.kind} {answer.data.height}"
        return answer.action

    @server.tool()
    def ask_roots(roots: Annotated[types.ListRootsResult, Resolve(list_roots)]) -> str:
        """Asks which directories there are."""
        return " ".join(f"{root.name}={root.uri}" for root in roots.roots)

    @server.resource("memo://first", mime_type="text/plain", description="The  first\nmemo.")
    def first() -> str:
        return "remember"

    @server.resource("memo://picture", mime_type="image/png")
    def picture() -> bytes:
        return b"\x89PNG"

    @server.resource("memo://day/{day}", description="The memo of a day.")
    def of_day(day: str) -> str:
        if day == "none":
            raise MCPError(types.INVALID_PARAMS, "there is no such day")
        return f"memo of {day}"

    @server.prompt(description="Greets somebody.")
    def greet(
        name: Annotated[str, Field(description="whom")], style: str = "short"
    ) -> list[Message]:
        return [UserMessage(f"Greet {name}, {style}."), AssistantMessage("Dear")]

    @server.tool()
    async def change(ctx: Context) -> str:
        """Announces that the first memo has changed."""
        await ctx.notify_resource_updated("memo://first")
        return "announced"

    return server
