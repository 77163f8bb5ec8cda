"""Shared parts of the daemon's routes: authentication, descriptions and pagination."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from vibe_llms.daemons.agents.answer_schemas import ERROR, NOTHING
from vibe_llms.daemons.agents.request_bodies import write_error
from vibe_llms.daemons.arrivals import admit
from vibe_llms.daemons.asgi import JSON, HttpCall
from vibe_llms.daemons.openapi import ApiOperation
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import ErrorWriter, Route
from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.plugins.specification.daemons import Authorizer, Grant

_DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
"""Maximum number of entries on one page of a list."""

LIMIT: Final[JsonObject] = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}

Perform: TypeAlias = Callable[[HttpCall, str], Awaitable[None]]
"""Handler of a request; the second argument is the caller's name, empty without an authorizer."""


@frozen
class RouteRow:
    """Description of a route, from which :class:`RouteAccess` produces the route.

    Attributes:
        method: HTTP method.
        pattern: Pattern of the path.
        perform: Handler of the route.
        summary: Purpose of the route.
        body: Schema of the request's body, if the route has a body.
        answer: Schema of a JSON answer.
        queries: Schemas of the query parameters.
        request_headers: Schemas of the request headers that have an effect.
        media_types: Media types of an answer other than JSON.
        status: Status of a successful answer.
        is_admitted: Whether its requests count against the limit of concurrent requests.
        needs_host: Whether it starts or resumes a run, which this process has to execute.
        write_error: Writes errors in the protocol of the path's clients.
    """

    method: str
    pattern: str
    perform: Perform
    summary: str
    body: JsonObject | None = None
    answer: JsonObject = attrs.field(default=NOTHING, kw_only=True)
    queries: Mapping[str, JsonObject] = attrs.field(factory=dict, kw_only=True)
    request_headers: Mapping[str, JsonObject] = attrs.field(factory=dict, kw_only=True)
    media_types: Sequence[str] = attrs.field(default=(JSON,), kw_only=True)
    status: int = attrs.field(default=200, kw_only=True)
    is_admitted: bool = attrs.field(default=True, kw_only=True)
    needs_host: bool = attrs.field(default=False, kw_only=True)
    write_error: ErrorWriter = attrs.field(default=write_error, kw_only=True)


@frozen(kw_only=True)
class RouteAccess:
    """Access control for routes.

    Attributes:
        authorizer: Authorizer of requests; by default all are allowed.
        hosts: Host names of the daemon; ``None`` for any.
        ensure_started: Raises while the daemon cannot answer yet.
    """

    authorizer: Authorizer | None = None
    hosts: Collection[str] | None = None
    ensure_started: Callable[[], None] = lambda: None

    async def admit(self, call: HttpCall, record: CallRecord) -> Grant | None:
        """Return the caller's grant; ``None`` if access is open to all. Raises AccessError."""
        return await admit(self.authorizer, self.hosts, call, record)

    def produce_route(self, row: RouteRow, *, tag: str) -> Route:
        """Produce a route whose handler receives the caller."""

        async def answer(call: HttpCall, record: CallRecord) -> None:
            record.face = tag
            grant = await self.admit(call, record)
            self.ensure_started()
            await row.perform(call, "" if grant is None else grant.subject)

        return Route(
            method=row.method,
            pattern=row.pattern,
            handler=answer,
            write_error=row.write_error,
            is_admitted=row.is_admitted,
            operation=ApiOperation(
                summary=row.summary,
                tag=tag,
                body=row.body,
                needs_body=bool({"required", "anyOf", "minProperties"} & {*(row.body or ())}),
                queries=row.queries,
                request_headers=row.request_headers,
                answers={each: row.answer if each == JSON else {} for each in row.media_types},
                error=ERROR,
                status=row.status,
                needs_key=self.authorizer is not None,
            ),
        )


def read_limit(value: str | None) -> int:
    """Read the page size of a list. Raises RequestError."""
    if value is None:
        return _DEFAULT_LIMIT
    if value.isascii() and value.isdigit() and len(value) < 5 and 1 <= int(value) <= MAX_LIMIT:
        return int(value)
    raise refuse("limit", f"The limit must be between 1 and {MAX_LIMIT}.")


def refuse(path: str, detail: str) -> RequestError:
    """Produce the error for an invalid request."""
    return RequestError(path=path, detail=detail, stage=Stage.FRAME)
