"""What all paths of this daemon share: who asks, how it is described, how pages are cut."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from vibe_llms.daemons.agents.answers import ERROR, NOTHING
from vibe_llms.daemons.agents.bodies import write_error
from vibe_llms.daemons.arrivals import admit
from vibe_llms.daemons.asgi import JSON, HttpCall
from vibe_llms.daemons.openapi import ApiOperation
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route
from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.plugins.specification.daemons import Authorizer, Grant

_PAGE: Final = 50
MOST: Final = 500
"""How much one page of a list has at most."""

LIMIT: Final[JsonObject] = {"type": "integer", "minimum": 1, "maximum": MOST}

Perform: TypeAlias = Callable[[HttpCall, str], Awaitable[None]]
"""Answers a request of somebody."""


@frozen
class RouteRow:
    """One path of a desk.

    Attributes:
        method: Of HTTP.
        pattern: The path.
        perform: Answers.
        summary: What it is for.
        body: The schema of what is said there, if anything.
        answer: The schema of what is answered as JSON.
        queries: The schemas of the parameters behind the path.
        heeds: The schemas of the headers of a request that are heeded.
        media_types: Of what is answered, where it is no JSON.
        status: Of an answer that is no error.
        is_admitted: Whether it counts among what is answered at once.
        needs_host: Whether it asks for a run that somebody here has to perform.
    """

    method: str
    pattern: str
    perform: Perform
    summary: str
    body: JsonObject | None = None
    answer: JsonObject = attrs.field(default=NOTHING, kw_only=True)
    queries: Mapping[str, JsonObject] = attrs.field(factory=dict, kw_only=True)
    heeds: Mapping[str, JsonObject] = attrs.field(factory=dict, kw_only=True)
    media_types: Sequence[str] = attrs.field(default=(JSON,), kw_only=True)
    status: int = attrs.field(default=200, kw_only=True)
    is_admitted: bool = attrs.field(default=True, kw_only=True)
    needs_host: bool = attrs.field(default=False, kw_only=True)


@frozen(kw_only=True)
class Guard:
    """Sees to it that whoever asks may.

    Attributes:
        authorizer: Says who may ask; by default everybody may.
        hosts: By which names the daemon is reached; ``None`` for any.
        ensure_begun: Raise while the daemon cannot answer yet.
    """

    authorizer: Authorizer | None = None
    hosts: Collection[str] | None = None
    ensure_begun: Callable[[], None] = lambda: None

    async def admit(self, call: HttpCall, record: CallRecord) -> Grant | None:
        """Return who asks; ``None`` where anybody may. Raises AccessError."""
        return await admit(self.authorizer, self.hosts, call, record)

    def produce_route(self, row: RouteRow, *, tag: str) -> Route:
        """Produces a route behind which it is known who asks."""

        async def answer(call: HttpCall, record: CallRecord) -> None:
            record.face = tag
            grant = await self.admit(call, record)
            self.ensure_begun()
            await row.perform(call, "" if grant is None else grant.subject)

        return Route(
            method=row.method,
            pattern=row.pattern,
            handler=answer,
            write_error=write_error,
            is_admitted=row.is_admitted,
            operation=ApiOperation(
                summary=row.summary,
                tag=tag,
                body=row.body,
                needs_body=bool({"required", "anyOf"} & {*(row.body or ())}),
                queries=row.queries,
                heeds=row.heeds,
                answers={each: row.answer if each == JSON else {} for each in row.media_types},
                error=ERROR,
                status=row.status,
                needs_key=self.authorizer is not None,
            ),
        )


def read_limit(given: str | None) -> int:
    """Reads how much of a list is wanted. Raises RequestError."""
    if given is None:
        return _PAGE
    if given.isascii() and given.isdigit() and len(given) < 5 and 1 <= int(given) <= MOST:
        return int(given)
    raise refuse("limit", f"The limit must be between 1 and {MOST}.")


def refuse(path: str, detail: str) -> RequestError:
    """Produces the error of a request that makes no sense."""
    return RequestError(path=path, detail=detail, stage=Stage.FRAME)
