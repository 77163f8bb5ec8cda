"""Tools and schemas in a client's request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.extras import collect_extras, keep_native
from vibe_llms.dialects.invocations import NO_ARGUMENTS, keep_parameters
from vibe_llms.dialects.ollama_chat.calling.invocations import ANY_OBJECT
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL
from vibe_llms.dialects.serving import refuse_invalid
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind, Translation


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Return the descriptions in a client's request; the choice is always ``auto``.

    Raises:
        RequestError: A tool is invalid.
    """
    invocables: list[InvocableDescription] = []
    losses: list[Loss] = []
    for index, tool in enumerate(native.get("tools") or ()):
        path = f"tools[{index}]"
        with refuse_invalid(f"The tool at {path}", "Ollama's /api/chat", path):
            invocables.append(_normalize_tool(tool, path, losses))
    return Translation((tuple(invocables), "auto"), losses)


def _normalize_tool(tool: Mapping[str, Any], path: str, losses: list[Loss]) -> InvocableDescription:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        name = str(tool.get("name") or tool["type"])
        native = keep_native(PROTOCOL, tool)
        return InvocableDescription(name=name, description="", schema=None, native=native)
    extras = collect_extras(tool, ("function",))
    if extras.get("type") == "function":
        del extras["type"]
    name, description = function["name"], function.get("description")
    if not isinstance(description, str) or not description.strip():
        description = name  # required by this library, but a client may omit it
        reason = "it has no description; its name is used"
        losses.append(Loss(kind=LossKind.SYNTHESIZED, path=path, reason=reason))
    schema = function.get("parameters")
    if not isinstance(schema, Mapping):
        schema = NO_ARGUMENTS
    schema, schema_extras = keep_parameters(schema)
    extras |= schema_extras
    if inner := collect_extras(function, ("name", "description", "parameters")):
        extras["function"] = inner
    return InvocableDescription(
        name=name,
        description=description,
        schema=schema,
        native=keep_native(PROTOCOL, extras),
    )


def normalize_schema(native: Mapping[str, Any]) -> Translation[JsonObject | None]:
    """Return the schema in a client's request; ``None`` if any text is allowed."""
    answer_format = native.get("format")
    if answer_format == "json":
        return Translation(ANY_OBJECT)
    is_schema = isinstance(answer_format, Mapping) and bool(answer_format)
    return Translation(answer_format if is_schema else None)
