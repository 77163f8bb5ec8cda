"""Routes of the daemon for notes, over :class:`.agents.notes.LocalNotes`."""

from __future__ import annotations

from typing import Final, cast, get_args

import attrs

from vibe_llms.agents.notes import ABSENT_VERSION, ANY_VERSION, LocalNotes, NoteScope, StoredNote
from vibe_llms.daemons.agents import answer_schemas
from vibe_llms.daemons.agents.request_bodies import read_json
from vibe_llms.daemons.agents.route_access import LIMIT, RouteAccess, RouteRow, read_limit, refuse
from vibe_llms.daemons.agents.schemas import BY, NOTE, TEXT
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.bodies import read_json_body
from vibe_llms.daemons.routes import Route
from vibe_llms.exceptions import DependencyError, TrustError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import String
from vibe_llms.tables.reading import read_table

_SCOPES: Final = get_args(NoteScope)


@frozen(kw_only=True)
class NoteBody:
    """A note to write.

    Attributes:
        text: The text, in Markdown.
    """

    text: String


class NoteHandlers:
    """Request handlers for notes.

    Args:
        notes: The notes.
        access: Authenticates callers.
    """

    def __init__(self, notes: LocalNotes, access: RouteAccess) -> None:
        self.notes = notes
        self._access = access

    def produce_routes(self) -> list[Route]:
        """Produce the routes of a service."""
        path = "/notes/{path:path}"
        queries = {
            "scope": {"enum": [*_SCOPES]},
            "name": TEXT,
            "query": TEXT,
            "by": BY,
            "limit": LIMIT,
            "after": TEXT,
        }
        table = [
            RouteRow(
                "GET",
                "/notes",
                self._survey,
                "List notes by path, or search them.",
                answer=answer_schemas.NOTES,
                queries=queries,
            ),
            RouteRow("GET", path, self._read, "Return a note.", answer=answer_schemas.NOTE),
            RouteRow(
                "PUT",
                path,
                self._write,
                "Create a note, or replace its text.",
                NOTE,
                answer=answer_schemas.NOTE,
                request_headers={"If-Match": TEXT, "If-None-Match": {"enum": [ANY_VERSION]}},
            ),
            RouteRow(
                "DELETE",
                path,
                self._delete,
                "Delete a note.",
                request_headers={"If-Match": TEXT},
            ),
        ]
        return [self._access.produce_route(row, tag="notes") for row in table]

    async def _survey(self, call: HttpCall, subject: str) -> None:
        query = call.query
        limit, scope = read_limit(query.get("limit")), query.get("scope")
        if scope is not None and scope not in _SCOPES:
            raise refuse("scope", f"Unknown scope. Use one of {', '.join(_SCOPES)}.")
        if query.get("by", "words") not in ("words", "meaning"):
            raise refuse("by", "Search by words or by meaning.")
        if query.get("query", "").strip():
            await self._search(call, query["query"], limit, subject)
            return
        notes, has_more = await self.notes.survey(
            scope=cast("NoteScope | None", scope),
            name=query.get("name", ""),
            limit=limit,
            after=query.get("after", ""),
            subject=subject,
        )
        data = [attrs.asdict(each) for each in notes]
        await call.send_json({"data": data, "has_more": has_more, "notices": []})

    async def _search(self, call: HttpCall, search: str, limit: int, subject: str) -> None:
        by, notices = call.query.get("by", "words"), []
        if by == "words":
            hits = await self.notes.search(search, limit=limit, subject=subject)
        else:
            try:
                hits, is_whole = await self.notes.search_meaning(
                    search, limit=limit, subject=subject
                )
            except (DependencyError, TrustError) as error:
                # The error contains the operator's remedy.
                raise refuse("by", f"Search by meaning is not set up here. {error}") from error
            if not is_whole:
                notices.append("Not all notes were compared yet; search again for more.")
        data = [attrs.asdict(each) for each in hits]
        await call.send_json({"data": data, "has_more": False, "notices": notices})

    async def _read(self, call: HttpCall, subject: str) -> None:
        await _send(call, await self.notes.read(call.names["path"], subject=subject))

    async def _write(self, call: HttpCall, subject: str) -> None:
        body = read_table(NoteBody, read_json(await read_json_body(call)), "body")
        absent = call.headers.get("if-none-match")
        if absent not in (None, ANY_VERSION):
            raise refuse("if-none-match", "The header can only be *, for a new note.")
        version = _read_version(call) if absent is None else ABSENT_VERSION
        note = await self.notes.write(
            call.names["path"], body.text, version=version, subject=subject
        )
        await _send(call, note)

    async def _delete(self, call: HttpCall, subject: str) -> None:
        version = _read_version(call)
        await self.notes.delete(call.names["path"], version=version, subject=subject)
        await call.send_json({})


async def _send(call: HttpCall, note: StoredNote) -> None:
    await call.send_json(attrs.asdict(note), headers={"etag": f'"{note.version}"'})


def _read_version(call: HttpCall) -> str:
    """Return the version that the caller knows. Raises RequestError if there is none."""
    header = call.headers.get("if-match", "").strip()
    version = header.removeprefix('"').removesuffix('"')
    if not version:
        raise refuse(
            "if-match",
            "Send If-Match with the version of the note (its ETag), or If-None-Match: * for a "
            "new note.",
        )
    return version
