"""What a model is told about something that it may invoke."""

from __future__ import annotations

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.plain import JsonObject


@attrs.frozen(kw_only=True)
class InvocableDescription:
    """The name, the purpose and the arguments of an invocable.

    Attributes:
        name: As the model will call it.
        description: Mandatory: a model that is not told what a tool is for misuses it.
        schema: A JSON Schema of the arguments, which are an object.
        strict: Whether the vendor shall enforce the schema, where it can.

    Raises:
        RequestError: The name or the description is empty.
    """

    name: str
    description: str
    schema: JsonObject
    strict: bool = False

    def __attrs_post_init__(self) -> None:
        for field in ("name", "description"):
            if not getattr(self, field).strip():
                raise RequestError(
                    path=f"invocables.{self.name or '?'}.{field}",
                    detail=f"An invocable needs a {field}.",
                    remedy="A model cannot use well what it is not told about.",
                )
