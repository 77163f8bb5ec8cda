"""What a model is told about something that it may invoke."""

from __future__ import annotations

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.contents import Native
from vibe_llms.messages.field_types import conform_fields
from vibe_llms.messages.json_values import ensure_schema, write_plain

CHOICES = ("auto", "none", "required")
"""The choices which name no invocable, and which therefore none may be called."""


@frozen(kw_only=True, field_transformer=conform_fields)
class InvocableDescription:
    """Description of a tool: name, purpose and arguments.

    Attributes:
        name: The name for the model.
        description: Mandatory: a model that is not told what a tool is for misuses it. Only a
            vendor's own tool, which its model knows, may go without.
        schema: A JSON Schema of the arguments, which are an object; the order of its properties
            is part of it. ``None`` for a custom tool, which takes free text.
        enforced: Whether the vendor shall hold the model to the schema, where it can.
        native: A vendor's own tool, verbatim.

    Raises:
        RequestError: The name or the description is empty, or a field holds what it cannot.
    """

    name: str
    description: str
    schema: JsonObject | None = attrs.field(converter=ensure_schema, eq=write_plain)
    enforced: bool = False
    native: Native | None = None

    def __attrs_post_init__(self) -> None:
        needed = ("name",) if self.native else ("name", "description")
        for field in needed:
            if not getattr(self, field).strip():
                raise RequestError(
                    path=field,
                    detail=f"The invocable {self.name!r} needs a {field}.",
                    remedy="A model cannot use well what it is not told about.",
                )
