"""Descriptions of tools, resources and prompts for MCP clients."""

from __future__ import annotations

from typing import Any, TypeVar

import mcp_types as types

from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.libraries import LibraryPrompt, Resource
from vibe_llms.invocables.mcp.relaying import strip_meta
from vibe_llms.invocables.registry import Registration

_Described = TypeVar("_Described", types.Tool, types.Resource, types.ResourceTemplate, types.Prompt)


def describe_tool(registration: Registration) -> types.Tool:
    """Describe a tool, with hints about its effect; a tool of an MCP server keeps its hints."""
    invoker, description = registration.invoker, registration.description
    if isinstance(invoker.source, types.Tool):
        # MCP tasks are not offered, even if the server supports them.
        return _pass_on(invoker.source, name=description.name, execution=None)
    return types.Tool(
        name=description.name,
        title=invoker.title or None,
        description=description.description,
        input_schema=_complete_schema(dict(invoker.schema)),
        output_schema=None if invoker.output_schema is None else dict(invoker.output_schema),
        annotations=_annotate(invoker),
    )


def adapt_tool(tool: types.Tool, *, is_modern: bool) -> types.Tool:
    """Remove a schema of results that are not objects, unless the client's protocol has them.

    Args:
        is_modern: Whether the client uses a version of the protocol without sessions, which permits
            results of any type.
    """
    schema = tool.output_schema
    if is_modern or schema is None or schema.get("type") == "object":
        return tool
    return tool.model_copy(update={"output_schema": None})


def describe_resource(resource: Resource) -> types.Resource | types.ResourceTemplate:
    """Describe a resource, or a template of many."""
    if isinstance(resource.source, types.Resource):
        return _pass_on(resource.source)
    if isinstance(resource.source, types.ResourceTemplate):
        return _pass_on(resource.source)
    fields: dict[str, Any] = {
        "name": resource.reader.name,
        "title": resource.title or None,
        "description": resource.reader.description,
        "mime_type": resource.mime_type or None,
    }
    if resource.is_template:
        return types.ResourceTemplate(uri_template=resource.uri, **fields)
    return types.Resource(uri=resource.uri, size=resource.size_bytes, **fields)


def describe_prompt(name: str, prompt: LibraryPrompt) -> types.Prompt:
    """Describe a prompt under its name."""
    if isinstance(prompt.source, types.Prompt):
        return _pass_on(prompt.source, name=name)
    schema = prompt.writer.schema
    properties: Any = schema.get("properties") or {}
    required: Any = schema.get("required") or ()
    arguments = [
        types.PromptArgument(
            name=argument,
            title=fields.get("title"),
            description=fields.get("description"),
            required=argument in required,
        )
        for argument, fields in properties.items()
    ]
    return types.Prompt(
        name=name,
        title=prompt.title or None,
        description=prompt.writer.description,
        arguments=arguments or None,
    )


def _pass_on(source: _Described, **update: Any) -> _Described:
    """Return a server's description without the fields of its connection to this process."""
    return source.model_copy(update={"meta": strip_meta(source.meta) or None, **update})


def _annotate(invoker: Invoker) -> types.ToolAnnotations:
    is_pure = invoker.effect is Effect.PURE
    return types.ToolAnnotations(
        read_only_hint=is_pure,
        # An effect does not tell additions from other changes, so every change may be destructive.
        destructive_hint=not is_pure,
        idempotent_hint=invoker.effect is not Effect.ONCE,
    )


def _complete_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Add or replace the type: MCP requires ``object``, which is the only type of arguments."""
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


def promises_structure(invoker: Invoker) -> bool:
    """Return whether clients know a schema of the results, and so expect structured content."""
    source = invoker.source
    schema: JsonObject | None = (
        source.output_schema if isinstance(source, types.Tool) else invoker.output_schema
    )
    return schema is not None
