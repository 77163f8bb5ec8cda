"""Newer format of ``llm``'s database: messages in a tree, and threads through it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.conversations.exchange import llm_rows
from vibe_llms.conversations.exchange.drafts import (
    Draft,
    read_moment,
    read_table,
    read_tables,
    read_text,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.contents import AnyContent, ReasoningContent, TextualContent
from vibe_llms.messages.losses import Translation

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation


def read_threads(database: sqlite3.Connection) -> Iterator[tuple[str, Translation[Conversation]]]:
    """Yield each thread after its id; shared messages are in each thread."""
    query = "select * from threads where tip_message_hash is not null order by datetime_utc, id"
    for thread in database.execute(query):
        yield str(thread["id"]), _Reader(database, dict(thread)).read()


@define
class _Reader:
    """Reader of one thread."""

    database: sqlite3.Connection
    thread: dict[str, Any]
    draft: Draft = attrs.field(init=False)

    def read(self) -> Translation[Conversation]:
        identity = str(self.thread["id"])
        self.draft = Draft(llm_rows.SOURCE, identity, f"threads[{identity}]")
        messages = self._survey_messages()
        # Instructions have no time of their own.
        moments = (read_moment(self._find_own_turn(each).get("datetime_utc")) for each in messages)
        self.draft.created = next(filter(None, moments), None)
        for message in messages:
            self._read_message(message)
        return self.draft.finish(read_text(self.thread.get("name")))

    def _survey_messages(self) -> list[dict[str, Any]]:
        messages: dict[str, dict[str, Any]] = {}
        digest = self.thread["tip_message_hash"]
        while digest and digest not in messages:
            row = self._fetch("select * from messages where hash = ?", digest)
            if not row:
                self.draft.add_loss(f".{digest}", "a message that is missing")
                break
            messages[digest] = row
            digest = row["parent_hash"]
        return list(messages.values())[::-1]

    def _find_own_turn(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the model call that a message ends, if it is an answer, or else begins."""
        is_answer = message["role"] == "assistant"
        column = "tip_message_hash" if is_answer else "parent_message_hash"
        return self._find_turn(str(message["hash"]), column)

    def _find_turn(self, digest: str, column: str) -> dict[str, Any]:
        """Return the model call that begins or ends with a message, preferably of this thread."""
        return self._fetch(
            f"select * from turns where {column} = ? "  # `column` is one of two constants
            "order by thread_id = ? desc, datetime_utc limit 1",
            digest,
            self.thread["id"],
        )

    def _fetch(self, query: str, *values: object) -> dict[str, Any]:
        """Return the first row of a result; an empty one if there is none."""
        row = self.database.execute(query, values).fetchone()
        return {} if row is None else dict(row)

    def _read_message(self, message: dict[str, Any]) -> None:
        digest, role = str(message["hash"]), message["role"]
        is_answer = role == "assistant"
        turn = self._find_own_turn(message)
        self.draft.begin(digest, read_moment(turn.get("datetime_utc")))
        if is_answer:
            self.draft.origin = llm_rows.make_origin(turn)
        contents: list[AnyContent] = []
        parts = self.database.execute(
            "select * from parts where message_hash = ? order by position", (digest,)
        ).fetchall()
        for row in parts:
            payload = llm_rows.decode_payload(row["payload"])
            place = f".messages[{digest}].parts[{row['position']}]"
            match row["type"]:
                case "text" if text := self._read_text(row, payload):
                    contents.append(TextualContent(text))
                case "reasoning" if text := self._read_text(row, payload):
                    contents.append(ReasoningContent(text=text))
                case "attachment":
                    attachment = self._fetch_attachment(read_table(payload.get("attachment")))
                    contents += llm_rows.read_attachment(self.draft, place, attachment)
                case "tool_call":
                    self._add(role, contents)
                    contents = []
                    llm_rows.add_invocation(self.draft, payload)
                case "tool_result":
                    if isinstance(payload.get("attachments"), list):
                        references = read_tables(payload["attachments"])
                        payload["attachments"] = list(map(self._fetch_attachment, references))
                    llm_rows.add_result(self.draft, payload)
                case "text" | "reasoning":
                    pass  # it is empty
                case kind:
                    self.draft.add_loss(place, f"a part of the kind {kind!r} has no counterpart")
        self._add(role, contents)

    def _add(self, role: str, contents: list[AnyContent]) -> None:
        match role:
            case "assistant":
                self.draft.add_answer(contents)
            case "system":
                self.draft.add_supervisor(contents)
            case "tool":
                self.draft.add_document(contents, None)
            case _:
                self.draft.add_user(contents)

    def _read_text(self, row: sqlite3.Row, payload: dict[str, Any]) -> str:
        if row["text"] is not None:
            return read_text(row["text"])
        if "text_ref" in payload:
            return self._join_fragments(payload["text_ref"])
        return read_text(payload.get("text"))

    def _join_fragments(self, pieces: object) -> str:
        references = [piece.get("fragment") for piece in read_tables(pieces)]
        query = "select content from fragments where id = ?"
        fragments = {
            number: read_text(self._fetch(query, number).get("content"))
            for number in references
            if isinstance(number, int)
        }
        return llm_rows.join_references(pieces, fragments)

    def _fetch_attachment(self, reference: dict[str, Any]) -> dict[str, Any]:
        query = "select * from attachments where id = ?"
        return self._fetch(query, read_text(reference.get("id")))
