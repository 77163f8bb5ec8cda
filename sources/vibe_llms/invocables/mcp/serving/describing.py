"""An invocable as a tool of MCP: how clients are told of it."""

from __future__ import annotations

from typing import Any

from mcp_types import Tool, ToolAnnotations

from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.registry import Registration


def describe_tool(registration: Registration) -> Tool:
    """Returns a tool with the hints that follow from its effect."""
    invoker = registration.invoker
    description = registration.description
    return Tool(
        name=description.name,
        description=description.description,
        input_schema=_complete_schema(dict(invoker.schema)),
        annotations=_annotate(invoker),
    )


def _annotate(invoker: Invoker) -> ToolAnnotations:
    is_pure = invoker.effect is Effect.PURE
    return ToolAnnotations(
        read_only_hint=is_pure,
        # Nothing of ours says that a change only adds something, so that it may destroy.
        destructive_hint=not is_pure,
        idempotent_hint=invoker.effect is not Effect.ONCE,
    )


def _complete_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """MCP wants the type said, where JSON Schema leaves it open."""
    return schema if schema.get("type") == "object" else {"type": "object", **schema}
