"""Descriptions of tools for the model."""

from __future__ import annotations

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.contents import CacheHint, Native
from vibe_llms.messages.field_types import conform_fields
from vibe_llms.messages.json_values import ensure_schema, write_plain
from vibe_llms.messages.server_tools import ServerTool

CHOICES = ("auto", "none", "required")
"""Choices that do not name a tool; no tool may have such a name."""


@frozen(kw_only=True, field_transformer=conform_fields)
class InvocableDescription:
    """Description of a tool: name, purpose and arguments.

    Attributes:
        name: The name for the model.
        description: Required, as a model misuses a tool without one. Only a vendor's own tool,
            which its model knows, does not need it.
        schema: A JSON Schema of the arguments, which are an object; the order of its properties
            is part of it. ``None`` for a custom tool, which takes free text.
        enforced: Whether the vendor enforces the schema, if it can.
        native: A vendor's own tool, verbatim. Other vendors get ``server_tool``, if it is set.
        cache: A mark for prompt caches behind this tool.
        server_tool: A server tool, which each dialect writes as its vendor's own. With a schema,
            a vendor without that tool is offered a function in its place.

    Raises:
        RequestError: The name or the description is empty, or a field is invalid.
    """

    name: str
    description: str
    schema: JsonObject | None = attrs.field(converter=ensure_schema, eq=write_plain)
    enforced: bool = False
    native: Native | None = None
    cache: CacheHint | None = None
    server_tool: ServerTool | None = None

    def __attrs_post_init__(self) -> None:
        is_known = self.native is not None or self.server_tool is not None
        needed = ("name",) if is_known else ("name", "description")
        for field in needed:
            if not getattr(self, field).strip():
                raise RequestError(
                    path=field,
                    detail=f"The invocable {self.name!r} needs a {field}.",
                    remedy="A model misuses tools without one.",
                )


def describe_server_tool(tool: ServerTool) -> InvocableDescription:
    """Return the description with which a request offers a server tool."""
    return InvocableDescription(
        name=tool.label or tool.name, description="", schema=None, server_tool=tool
    )
