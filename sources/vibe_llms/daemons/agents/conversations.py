"""Routes of the daemon for conversations, over :class:`.agents.conversations`."""

from __future__ import annotations

import asyncio
import re
from typing import Final

import attrs

from vibe_llms.agents.conversations import LocalConversations
from vibe_llms.conversations.lineage.exporting import (
    export_common,
    export_family,
    export_turns,
)
from vibe_llms.daemons.agents import answer_schemas
from vibe_llms.daemons.agents.request_bodies import read_json
from vibe_llms.daemons.agents.route_access import LIMIT, RouteAccess, RouteRow, read_limit, refuse
from vibe_llms.daemons.agents.schemas import (
    BY,
    CONVERSATION_CHANGE,
    CONVERSATION_FORK,
    INDEX,
    TEXT,
)
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.bodies import read_json_body
from vibe_llms.daemons.routes import Route
from vibe_llms.exceptions import DependencyError, TrustError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.codec.converter import produce_converter
from vibe_llms.runs.subscriptions import LogSubscriptions
from vibe_llms.tables.annotations import Amount, String, Strings
from vibe_llms.tables.reading import read_table

_OCTET_STREAM: Final = "application/octet-stream"
_UNTRUSTED_HEADERS: Final = {
    "content-security-policy": (
        "sandbox; default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"
    ),
    "x-content-type-options": "nosniff",
}
"""Response headers for untrusted content in a format that a browser might execute."""


@frozen(kw_only=True)
class ConversationChange:
    """A request to change a conversation.

    Attributes:
        name: New name; empty for none.
        keep: Number of last turns that a compaction keeps word for word.
        pinned: Ids of the messages that every compaction keeps.
    """

    name: String | None = None
    keep: Amount | None = None
    pinned: Strings | None = None


@frozen(kw_only=True)
class ConversationFork:
    """A request to fork a conversation.

    Attributes:
        from_index: Number of canisters to share; by default all.
    """

    from_index: Amount | None = None


class ConversationHandlers:
    """Request handlers for conversations.

    Args:
        conversations: The conversations.
        subscriptions: Subscriptions to runs; their watchers are notified of deletions.
        access: Authenticates callers.
    """

    def __init__(
        self,
        conversations: LocalConversations,
        subscriptions: LogSubscriptions,
        access: RouteAccess,
    ) -> None:
        self.conversations = conversations
        self._subscriptions = subscriptions
        self._access = access

    def produce_routes(self) -> list[Route]:
        """Produce the routes of a service."""
        path = "/conversations/{id}"
        table = [
            RouteRow(
                "GET",
                "/conversations",
                self._survey,
                "List conversations, newest first, or search them.",
                answer=answer_schemas.CONVERSATIONS,
                queries={"query": TEXT, "by": BY, "limit": LIMIT, "after": TEXT},
            ),
            RouteRow(
                "GET",
                path,
                self._read,
                "Return the messages of a conversation.",
                answer=answer_schemas.CONVERSATION,
                queries={"limit": LIMIT, "after": INDEX},
            ),
            RouteRow(
                "PATCH",
                path,
                self._change,
                "Rename a conversation, or choose what its compactions keep.",
                CONVERSATION_CHANGE,
                answer=answer_schemas.CHANGED_CONVERSATION,
            ),
            RouteRow("DELETE", path, self._delete, "Delete a conversation."),
            RouteRow(
                "POST",
                f"{path}/fork",
                self._fork,
                "Start a conversation with a message.",
                CONVERSATION_FORK,
                answer=answer_schemas.FORKED_CONVERSATION,
                request_headers={"Idempotency-Key": TEXT},
                status=201,
            ),
            RouteRow(
                "GET",
                f"{path}/family",
                self._survey_family,
                "List the forks of a conversation and of its ancestors.",
                answer=answer_schemas.FAMILY,
            ),
            RouteRow(
                "GET",
                f"{path}/difference",
                self._compare,
                "Compare a conversation with another one.",
                answer=answer_schemas.DIFFERENCE,
                queries={"other": TEXT, "limit": LIMIT, "after": INDEX},
            ),
            RouteRow(
                "GET",
                f"{path}/export",
                self._export,
                "Export a conversation in a format.",
                queries={"format": TEXT},
                media_types=("*/*",),
            ),
            RouteRow(
                "GET",
                f"{path}/contents/{{content}}",
                self._read_content,
                "Return the data of a content part, such as an image.",
                media_types=("*/*",),
            ),
        ]
        return [self._access.produce_route(row, tag="conversations") for row in table]

    async def _survey(self, call: HttpCall, subject: str) -> None:
        query = call.query
        limit, search = read_limit(query.get("limit")), query.get("query", "")
        if query.get("by", "words") not in ("words", "meaning"):
            raise refuse("by", "Search by words or by meaning.")
        if search.strip():
            if query.get("after"):
                raise refuse("after", "Search results have no pages; request a larger limit.")
            await self._search(call, search, limit, subject)
            return
        after = query.get("after", "")
        rows, has_more = await self.conversations.survey(limit=limit, after=after, subject=subject)
        data = [row._asdict() for row in rows]
        await call.send_json({"data": data, "has_more": has_more, "notices": []})

    async def _search(self, call: HttpCall, search: str, limit: int, subject: str) -> None:
        by, notices = call.query.get("by", "words"), []
        if by == "meaning":
            try:
                hits, has_more, is_whole = await self.conversations.search_meaning(
                    search, limit=limit, subject=subject
                )
            except (DependencyError, TrustError) as error:
                # The error contains the operator's remedy.
                raise refuse("by", f"Search by meaning is not set up here. {error}") from error
            if not is_whole:
                notices.append("Not all conversations were compared yet; search again for more.")
        else:
            hits, has_more = await self.conversations.search(search, limit=limit, subject=subject)
        data = [hit._asdict() for hit in hits]
        await call.send_json({"data": data, "has_more": has_more, "notices": notices})

    async def _read(self, call: HttpCall, subject: str) -> None:
        query = call.query
        limit, after = read_limit(query.get("limit")), _read_index(query.get("after", "0"))
        history = await self.conversations.read(call.names["id"], subject=subject)
        end = after + limit
        unstructure = produce_converter().unstructure
        body = {
            "id": history.identity,
            "metadata": attrs.asdict(history.metadata),
            "count": len(history.canisters),
            "data": [unstructure(each) for each in history.canisters[after:end]],
            "has_more": len(history.canisters) > end,
            "notices": [str(each) for each in history.notices],
        }
        await call.send_json(body)

    async def _change(self, call: HttpCall, subject: str) -> None:
        fields = read_json(await read_json_body(call))
        change = read_table(ConversationChange, fields, "body")
        metadata = await self.conversations.change(
            call.names["id"], **attrs.asdict(change), subject=subject
        )
        await call.send_json({"id": call.names["id"], "metadata": attrs.asdict(metadata)})

    async def _fork(self, call: HttpCall, subject: str) -> None:
        request = read_table(ConversationFork, read_json(await read_json_body(call)), "body")
        parent, key = call.names["id"], call.headers.get("idempotency-key", "")
        child = await self.conversations.fork(
            parent, from_index=request.from_index, key=key, subject=subject
        )
        body = {"id": child, "parent": parent}
        await call.send_json(body, 201, {"location": f"/conversations/{child}"})

    async def _survey_family(self, call: HttpCall, subject: str) -> None:
        family = await self.conversations.survey_family(call.names["id"], subject=subject)
        await call.send_json({"root": family.row.id, "data": export_family(family)})

    async def _compare(self, call: HttpCall, subject: str) -> None:
        query, other = call.query, call.query.get("other", "")
        limit, after = read_limit(query.get("limit")), _read_index(query.get("after", "0"))
        if not other:
            raise refuse("other", "Pass the id of the conversation to compare with.")
        difference = await self.conversations.compare(call.names["id"], other, subject=subject)
        end = after + limit
        turns = await asyncio.to_thread(export_turns, difference.turns[after:end])
        body = {
            "first": difference.first,
            "second": difference.second,
            "common": export_common(difference),
            "count": len(difference.turns),
            "data": turns,
            "has_more": len(difference.turns) > end,
        }
        await call.send_json(body)

    async def _export(self, call: HttpCall, subject: str) -> None:
        file_format = call.query.get("format", "markdown")
        document = await self.conversations.export(call.names["id"], file_format, subject=subject)
        headers = {
            "content-disposition": f'attachment; filename="{document.name}"',
            **_UNTRUSTED_HEADERS,
        }
        text = document.text.encode("utf-8", "replace")
        await call.answer(200, text, headers, content_type=document.media_type)

    async def _read_content(self, call: HttpCall, subject: str) -> None:
        names = call.names
        content, data = await self.conversations.read_content(
            names["id"], names["content"], subject=subject
        )
        headers = {"content-disposition": "attachment", **_UNTRUSTED_HEADERS}
        kind = content.mime_type if _is_plain_type(content.mime_type) else _OCTET_STREAM
        await call.answer(200, data, headers, content_type=kind)

    async def _delete(self, call: HttpCall, subject: str) -> None:
        await self.conversations.delete(call.names["id"], subject=subject)
        self._subscriptions.end(call.names["id"])
        await call.send_json({})


def _is_plain_type(mime_type: str) -> bool:
    """Return whether an untrusted media type is safe in a header."""
    return re.fullmatch(r"[\w.+-]{1,60}/[\w.+-]{1,60}", mime_type, re.ASCII) is not None


def _read_index(value: str) -> int:
    if value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    raise refuse("after", "The value must be the number of entries to skip.")
