"""Routes of a daemon, and the table that finds the route of a request."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import takewhile
from typing import TypeAlias

from vibe_llms.daemons.asgi import JSON, HttpCall
from vibe_llms.daemons.openapi import ApiOperation
from vibe_llms.daemons.records import CallRecord
from vibe_llms.dialects.client_answers import ErrorAnswer, classify, compose_error_headers
from vibe_llms.exceptions import ConverseError, ProviderFault
from vibe_llms.foundation.attrs_classes import frozen

Handler: TypeAlias = Callable[[HttpCall, CallRecord], Awaitable[None]]
"""Answers one request. An exception before the response becomes an error response."""

ErrorWriter: TypeAlias = Callable[[ConverseError], ErrorAnswer]


@frozen(kw_only=True)
class Route:
    """One kind of request.

    Attributes:
        method: HTTP method.
        pattern: The path, with ``{name}`` for a part without slashes and ``{name:path}`` for a part
            that may contain slashes.
        handler: Answers the request.
        write_error: Writes errors in the protocol of the path's clients.
        choose_writer: Returns the error writer where clients of several protocols use the path.
        is_admitted: Whether the request counts towards the limit on concurrent ones; requests about
            the daemon itself do not.
        operation: Description for OpenAPI.
        body_types: Accepted media types of the body.
    """

    method: str
    pattern: str
    handler: Handler
    write_error: ErrorWriter
    is_admitted: bool = True
    operation: ApiOperation = ApiOperation()
    choose_writer: Callable[[HttpCall], ErrorWriter] | None = None
    body_types: tuple[str, ...] = (JSON,)

    def compile(self) -> re.Pattern[str]:
        """Return the regular expression of the path; its named parts are groups."""
        parts = re.split(r"\{(\w+)(:path)?\}", self.pattern)
        expression = re.escape(parts[0])
        for name, deep, rest in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            characters = ".+" if deep else "[^/]+"
            expression += f"(?P<{name}>{characters}){re.escape(rest)}"
        return re.compile(expression, re.DOTALL)  # names may have line breaks


class RouteTable:
    """Finds the route of a request: an exact match, else the first that matches."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._exact = {
            (route.method, route.pattern): route for route in routes if "{" not in route.pattern
        }
        self._exact_paths = frozenset(path for _, path in self._exact)
        self._patterns = [(route, route.compile()) for route in routes if "{" in route.pattern]

    def find(self, method: str, path: str) -> tuple[Route | None, Mapping[str, str]]:
        """Return the route of a request, and the named parts of its path."""
        method = "GET" if method == "HEAD" else method
        if (route := self._exact.get((method, path))) is not None:
            return route, {}
        if path in self._exact_paths:  # an exact match has precedence over patterns
            return None, {}
        for route, pattern in self._patterns:
            if route.method == method and (match := pattern.fullmatch(path)):
                return route, match.groupdict()
        return None, {}

    def list_methods(self, method: str, path: str) -> list[str]:
        """Return the allowed methods of a path, if ``method`` is not allowed there."""
        if exact := sorted(allowed for allowed, exact_path in self._exact if exact_path == path):
            return exact
        if self._has_other_verbs(method, path):
            return []
        return sorted(
            {route.method for route, pattern in self._patterns if pattern.fullmatch(path)}
        )

    def _has_other_verbs(self, method: str, path: str) -> bool:
        """Return whether the method would be allowed with another verb after the last colon.

        Paths of Gemini end with a verb, as in ``/v1beta/models/NAME:countTokens``.
        """
        stem, colon, _ = path.rpartition(":")
        if not colon:
            return False
        for route, pattern in self._patterns:
            if route.method == method and "}:" in route.pattern:
                verb = route.pattern.rpartition("}:")[2]
                if pattern.fullmatch(f"{stem}:{verb}"):
                    return True
        return False

    def find_writer(self, path: str) -> ErrorWriter:
        """Return the error writer of the known paths that are most similar to an unknown one."""
        shared, nearest = 0, None
        for route in self._routes:
            if route.pattern == path:
                return route.write_error
            if (count := _count_shared(route.pattern, path)) > shared:
                shared, nearest = count, route
        return write_plain_error if nearest is None else nearest.write_error


def _count_shared(pattern: str, path: str) -> int:
    """Return the number of equal parts at the beginning of two paths."""
    pairs = zip(pattern.split("/")[1:], path.split("/")[1:], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def write_plain_error(error: ConverseError) -> ErrorAnswer:
    """Write an error of a route that belongs to no protocol."""
    fault, status = classify(error)
    kind = "server_error" if status >= 500 or fault is ProviderFault.UNKNOWN else str(fault)
    body = {"error": {"message": str(error), "type": kind, "code": error.WORD}}
    return ErrorAnswer(status, body, compose_error_headers(error))
