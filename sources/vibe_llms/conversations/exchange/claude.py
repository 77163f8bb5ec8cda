"""Importer of claude.ai's export: conversations as messages with blocks, as in the API.

The format is undocumented. This reads the fields found in Anthropic's exports up to 2026, and
reports all others as losses.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.conversations.exchange.drafts import (
    Draft,
    read_count,
    read_list,
    read_moment,
    read_table,
    read_tables,
    read_text,
    write_json,
)
from vibe_llms.conversations.exchange.exports import open_export
from vibe_llms.exceptions import CodecError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import Origin, Owner, StopReason
from vibe_llms.messages.contents import (
    AnyContent,
    Citation,
    ReasoningContent,
    TextualContent,
)
from vibe_llms.messages.losses import LossKind, Translation

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation

SOURCE = "claude"

_STOP_REASONS = {
    "end_turn": StopReason.ANSWERED,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "max_tokens": StopReason.LIMIT,
    "user_canceled": StopReason.INTERRUPTED,
    "refusal": StopReason.REFUSED,
}


def read_claude(path: Path) -> Iterator[Translation[Conversation]]:
    """Yield the conversations of an export, each along the path that was shown last.

    Raises:
        CodecError: The file is not such an export; the error names the place.
    """
    with open_export(path) as export:
        for place, table in export.read_tables():
            yield _Reader(place, table).read()


@define
class _Reader:
    """Reader of one conversation."""

    place: str
    table: dict[str, Any]
    draft: Draft = attrs.field(init=False)
    calls: list[str] = attrs.field(factory=list)
    """Ids of the calls without a result, for results that name no call."""

    def read(self) -> Translation[Conversation]:
        messages = self.table.get("chat_messages")
        if not isinstance(messages, list):
            raise CodecError(
                path=f"{self.place}.chat_messages",
                detail="A Claude conversation needs a list `chat_messages`.",
            )
        created = read_moment(self.table.get("created_at"))
        key = read_text(self.table.get("uuid"))
        key = key or f"{self.table.get('created_at')} {self.table.get('name')}"
        self.draft = Draft(SOURCE, key, self.place, created)
        shown_indices = _find_path(messages, self.table.get("current_leaf_message_uuid"))
        for index, message in enumerate(messages):
            place = f".chat_messages[{index}]"
            if not isinstance(message, dict):
                raise CodecError(path=f"{self.place}{place}", detail="A message must be an object.")
            if index in shown_indices:
                self._read_message(place, message)
            elif message.get("text") or message.get("content"):
                self.draft.add_loss(place, "a message of a branch that is not shown")
        return self.draft.finish(read_text(self.table.get("name")))

    def _read_message(self, place: str, message: dict[str, Any]) -> None:
        key = read_text(message.get("uuid")) or place
        self.draft.begin(key, read_moment(message.get("created_at")))
        for name in ("files", "files_v2"):
            for number, _ in enumerate(read_list(message.get(name))):
                # If both lists exist, report a file only once.
                if name == "files" or not message.get("files"):
                    reason = "a file or picture: its bytes are not in the export"
                    self.draft.add_loss(f"{place}.{name}[{number}]", reason)
        for number, attachment in enumerate(read_tables(message.get("attachments"))):
            text = read_text(attachment.get("extracted_content"))
            title = read_text(attachment.get("file_name")) or None
            if text:
                self.draft.add_document([TextualContent(text)], title)
            else:
                reason = "an attachment whose text is not in the export"
                self.draft.add_loss(f"{place}.attachments[{number}]", reason)
        blocks = read_list(message.get("content"))
        if not blocks and (text := read_text(message.get("text"))):
            blocks = [{"type": "text", "text": text}]
        match message.get("sender"):
            case "human":
                self._read_question(place, blocks)
            case "assistant":
                self._set_origin(message)
                for number, block in enumerate(blocks):
                    self._read_block(f"{place}.content[{number}]", read_table(block))
            case sender:
                self.draft.add_loss(place, f"unknown sender {sender!r}")

    def _read_question(self, place: str, blocks: list[Any]) -> None:
        contents: list[AnyContent] = []
        for number, block in enumerate(map(read_table, blocks)):
            if block.get("type") in ("text", "voice_note"):
                contents += _read_text_block(block)
            else:
                self._add_block_loss(f"{place}.content[{number}]", block)
        self.draft.add_user(contents)

    def _set_origin(self, message: dict[str, Any]) -> None:
        native = read_text(message.get("stop_reason")) or None
        model = read_text(message.get("model")) or read_text(self.table.get("model"))
        self.draft.origin = Origin(
            provider=SOURCE,
            model=model or "unknown",
            stop_reason=_STOP_REASONS.get(native or "", StopReason.UNKNOWN),
            native_stop_reason=native,
        )

    def _read_block(self, place: str, block: dict[str, Any]) -> None:
        match block.get("type"):
            case "text" | "voice_note":
                self.draft.add_answer(_read_text_block(block))
            case "thinking":
                text = read_text(block.get("thinking"))
                summaries = read_tables(block.get("summaries"))
                summary = list(filter(None, (read_text(each.get("summary")) for each in summaries)))
                if text or summary:
                    self.draft.add_answer([ReasoningContent(text=text, summary=summary)])
            case "tool_use":
                identity = read_text(block.get("id")) or place
                self.calls.append(identity)
                self.draft.add_invocation(
                    identity,
                    read_text(block.get("name")) or "unknown",
                    write_json(block.get("input") or {}),
                    "json",
                    Owner.VENDOR,
                )
            case "tool_result":
                self._read_result(place, block)
            case _:
                self._add_block_loss(place, block)

    def _read_result(self, place: str, block: dict[str, Any]) -> None:
        # A result without a name belongs to the last call.
        last_call = self.calls[-1] if self.calls else ""
        identity = read_text(block.get("tool_use_id")) or last_call
        value = block.get("content")
        pieces = [{"type": "text", "text": value}] if isinstance(value, str) else read_list(value)
        contents: list[AnyContent] = []
        for number, piece in enumerate(map(read_table, pieces)):
            if piece.get("type") == "text":
                contents += _read_text_block(piece)
            else:
                contents.append(TextualContent(write_json(piece)))
                self.draft.add_loss(
                    f"{place}.content[{number}]",
                    f"a part of a result, of the kind {piece.get('type')!r}, is kept as its JSON",
                    LossKind.COERCED,
                )
        name = read_text(block.get("name")) or None
        if identity not in self.calls:  # a result must have a call, so this becomes a document
            self.draft.add_document(contents, name)
            return
        self.calls.remove(identity)
        self.draft.add_result(
            identity, name, contents, is_error=block.get("is_error") is True, owner=Owner.VENDOR
        )

    def _add_block_loss(self, place: str, block: dict[str, Any]) -> None:
        if block.get("type") != "token_budget":  # irrelevant to the messages
            self.draft.add_loss(
                place, f"a block of the kind {block.get('type')!r} has no counterpart"
            )


def _read_text_block(block: dict[str, Any]) -> list[AnyContent]:
    text = read_text(block.get("text"))
    if not text:
        return []
    citations = []
    for each in read_tables(block.get("citations")):
        details = read_table(each.get("details"))
        url = read_text(details.get("url")) or read_text(each.get("url"))
        title = read_text(details.get("title")) or read_text(each.get("title"))
        if url or title:
            citations.append(
                Citation(
                    start=read_count(each.get("start_index")),
                    end=read_count(each.get("end_index")),
                    url=url or None,
                    title=title or None,
                )
            )
    return [TextualContent(text, citations=citations)]


def _find_path(messages: list[Any], current: object) -> set[int]:
    """Return the indices of the messages that were shown; all, if no message names its parent."""
    numbers = {
        read_text(message.get("uuid")): index
        for index, message in enumerate(messages)
        if isinstance(message, dict)
    }
    known = numbers.keys()
    if not any(read_table(message).get("parent_message_uuid") in known for message in messages):
        return set(range(len(messages)))
    index = numbers.get(read_text(current), len(messages) - 1)
    path: set[int] = set()
    while index not in path:
        path.add(index)
        parent = read_text(read_table(messages[index]).get("parent_message_uuid"))
        # Without a known parent the index does not change, which ends the loop.
        index = numbers.get(parent, index)
    return path
