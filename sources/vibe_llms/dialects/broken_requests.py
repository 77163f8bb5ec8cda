"""Detection of requests that every vendor rejects: without messages, or with invalid schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from vibe_llms.exceptions import RequestError, Stage

_SHOWN_CHARACTERS: Final = 40
_SCHEMAS: Final = (
    "input_schema",
    "parameters",
    "parametersJsonSchema",
    "parameters_json_schema",
)
"""The fields in which the protocols describe arguments."""

_GROUPS: Final = ("functionDeclarations", "function_declarations", "tools")
"""The fields of a tool with several descriptions."""


def explain_missing_message(path: str) -> RequestError:
    """Return the error for a request without a message."""
    return RequestError(
        path=path,
        detail="The request has no message.",
        remedy="Begin with a user message.",
        stage=Stage.FRAME,
    )


def refuse_broken_schemas(native: Mapping[str, Any]) -> None:
    """Reject a client's request if a tool's description of arguments is not an object.

    Its own vendor would reject it. For another vendor the tool would be dropped silently.

    Raises:
        RequestError: Names the tool and the value.
    """
    for path, schema in _survey(native.get("tools"), "tools"):
        if schema is not None and not isinstance(schema, Mapping):
            shown = json.dumps(schema)[:_SHOWN_CHARACTERS]
            raise RequestError(
                path=path,
                detail=f"{path} is not a JSON Schema object, but {shown}.",
                remedy='Describe the arguments by an object, such as {"type": "object"}.',
                stage=Stage.FRAME,
            )


def _survey(tools: object, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the descriptions of the arguments of tools, with their paths."""
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        if not isinstance(tool, Mapping):
            continue
        place = f"{path}[{index}]"
        inner = tool.get("function")
        for where, fields in ((place, tool), (f"{place}.function", inner)):
            if isinstance(fields, Mapping):
                yield from (
                    (f"{where}.{name}", fields[name]) for name in _SCHEMAS if name in fields
                )
        for name in _GROUPS:
            yield from _survey(tool.get(name), f"{place}.{name}")
