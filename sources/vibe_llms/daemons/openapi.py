"""OpenAPI 3.1 description of a daemon (https://spec.openapis.org/oas/v3.1.1.html).

The paths are the routes; an :class:`ApiOperation` describes each route. Schemas list only what a
request requires. For the other fields of a vendor's protocol, clients have the vendor's reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject

_JSON: Final = "application/json"
_OBJECT: Final[JsonObject] = {"type": "object"}
_PART: Final = re.compile(r"\{(\w+)(:path)?\}")

SCHEMES: Final[Mapping[str, JsonObject]] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "x-goog-api-key": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
}
"""Places of a client's key; see :func:`.asgi.read_credential`."""

PLAIN_ERROR: Final[JsonObject] = {
    "title": "Error",
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
"""Errors of routes that belong to no protocol."""


@frozen(kw_only=True)
class ApiOperation:
    """Description of a route. A schema with a title is written once, under its title.

    Attributes:
        summary: Purpose, in one line.
        tag: Group.
        body: Schema of the request body; ``None`` without one.
        needs_body: Whether the body is required.
        body_type: Media type of the body.
        queries: Schemas of the query parameters.
        answers: Schemas of the responses, by media type.
        status: Status of these responses.
        headers: Schemas of the response headers.
        request_headers: Schemas of the request headers that have an effect.
        is_hidden: Whether to omit the route from the description; true for files of a web page.
        error: Schema of an error.
        needs_key: Whether clients must send a key.
    """

    summary: str = ""
    tag: str = ""
    body: JsonObject | None = None
    needs_body: bool = True
    body_type: str = _JSON
    queries: Mapping[str, JsonObject] = attrs.field(factory=dict)
    answers: Mapping[str, JsonObject] = attrs.field(factory=lambda: {_JSON: _OBJECT})
    status: int = 200
    headers: Mapping[str, JsonObject] = attrs.field(factory=dict)
    request_headers: Mapping[str, JsonObject] = attrs.field(factory=dict)
    is_hidden: bool = False
    error: JsonObject = PLAIN_ERROR
    needs_key: bool = False


class DescribedRoute(Protocol):
    """The attributes of a route that its description needs."""

    @property
    def method(self) -> str:
        """HTTP method."""

    @property
    def pattern(self) -> str:
        """The path, with names in braces."""

    @property
    def operation(self) -> ApiOperation:
        """The description."""

    @property
    def body_types(self) -> tuple[str, ...]:
        """Accepted media types of the body."""


def describe(routes: Sequence[DescribedRoute], title: str) -> JsonObject:
    """Return the complete description of some routes."""
    from vibe_llms.foundation.version import __version__

    schemas: dict[str, JsonObject] = {}
    paths: dict[str, dict[str, JsonObject]] = {}
    for route in routes:
        if route.operation.is_hidden:
            continue
        path = paths.setdefault(_PART.sub(r"{\1}", route.pattern), {})
        path[route.method.lower()] = _describe_route(route, schemas)
    return {
        "openapi": "3.1.1",
        "info": {"title": title, "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": SCHEMES},
    }


def _describe_route(route: DescribedRoute, schemas: dict[str, JsonObject]) -> JsonObject:
    operation = route.operation
    answer: dict[str, Any] = {
        "description": "The answer.",
        "content": _write(operation.answers, schemas),
    }
    if operation.headers:
        answer["headers"] = {
            name: {"required": True, "schema": schema} for name, schema in operation.headers.items()
        }
    description: dict[str, Any] = {
        "operationId": _name(route),
        "summary": operation.summary or f"{route.method} {route.pattern}",
        "responses": {
            str(operation.status): answer,
            **{
                status: {
                    "description": meaning,
                    "content": _write({_JSON: operation.error}, schemas),
                }
                for status, meaning in _ERRORS
            },
        },
    }
    if operation.tag:
        description["tags"] = [operation.tag]
    parameters = [
        *_list_parts(route.pattern),
        *_list_parameters(operation.queries, "query"),
        *_list_parameters(operation.request_headers, "header"),
    ]
    if parameters:
        description["parameters"] = parameters
    if operation.body is not None:
        content = _write({operation.body_type: operation.body}, schemas)
        description["requestBody"] = {"required": operation.needs_body, "content": content}
    if operation.needs_key:
        description["security"] = [{name: []} for name in SCHEMES]
    return description


_ERRORS: Final = (
    ("4XX", "The request was refused, here or by an upstream."),
    ("5XX", "An error here or at an upstream."),
)


def _name(route: DescribedRoute) -> str:
    pattern = f"{route.pattern}index" if route.pattern.endswith("/") else route.pattern
    words = re.findall(r"[A-Za-z0-9]+", _PART.sub(r"by_\1", pattern))
    return "_".join((route.method.lower(), *words))


def _list_parts(pattern: str) -> list[JsonObject]:
    schema: JsonObject = {"type": "string", "minLength": 1}
    return [
        {"name": found[1], "in": "path", "required": True, "schema": schema}
        for found in _PART.finditer(pattern)
    ]


def _list_parameters(schemas: Mapping[str, JsonObject], location: str) -> list[JsonObject]:
    return [{"name": name, "in": location, "schema": schema} for name, schema in schemas.items()]


def _write(
    contents: Mapping[str, JsonObject], schemas: dict[str, JsonObject]
) -> Mapping[str, JsonObject]:
    """Return responses by media type; collect schemas that have a title."""
    written: dict[str, JsonObject] = {}
    for kind, schema in contents.items():
        title = schema.get("title")
        if isinstance(title, str):
            schemas[title] = schema
            written[kind] = {"schema": {"$ref": f"#/components/schemas/{title}"}}
        else:
            written[kind] = {"schema": schema}
    return written
