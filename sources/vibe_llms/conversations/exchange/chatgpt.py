"""Importer of ChatGPT's export: a conversation is a tree of messages, of which one path is shown.

The format is undocumented. This reads the fields found in OpenAI's exports up to 2026, and reports
all others as losses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.conversations.exchange.drafts import (
    Draft,
    make_media,
    read_count,
    read_list,
    read_moment,
    read_table,
    read_tables,
    read_text,
)
from vibe_llms.conversations.exchange.exports import Export, open_export
from vibe_llms.exceptions import CodecError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import Origin, Owner, StopReason
from vibe_llms.messages.contents import AnyContent, Citation, ReasoningContent, TextualContent
from vibe_llms.messages.losses import LossKind, Translation

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation

SOURCE = "chatgpt"

_STOP_REASONS = {
    "stop": StopReason.ANSWERED,
    "max_tokens": StopReason.LIMIT,
    "interrupted": StopReason.INTERRUPTED,
}
_TEXTS = {
    "text": "parts",
    "multimodal_text": "parts",
    "code": "text",
    "execution_output": "text",
    "tether_quote": "text",
    "tether_browsing_display": "result",
    "system_error": "text",
    "computer_output": "text",
    "sonic_webpage": "text",
    "model_editable_context": "model_set_context",
}
"""The field that has the text, by kind of content."""
_FIELDS = ("parts", "text", "result", "content")
"""Fields that may have the text of an unknown kind of content."""
_MIME_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "m4a": "audio/mp4",
    "mp4": "video/mp4",
    "pdf": "application/pdf",
}


def read_chatgpt(path: Path) -> Iterator[Translation[Conversation]]:
    """Yield the conversations of an export, each along the path that was shown last.

    Raises:
        CodecError: The file is not such an export; the error names the place.
    """
    with open_export(path) as export:
        for place, table in export.read_tables():
            yield _Reader(export, place, table).read()


@define
class _Reader:
    """Reader of one conversation."""

    export: Export
    place: str
    table: dict[str, Any]
    draft: Draft = attrs.field(init=False)
    pending: dict[str, str] = attrs.field(factory=dict)
    """Ids of the calls without a result, by the name of the tool."""

    def read(self) -> Translation[Conversation]:
        mapping = self.table.get("mapping")
        if not isinstance(mapping, dict):
            raise CodecError(
                path=f"{self.place}.mapping",
                detail="A ChatGPT conversation needs an object `mapping` with messages.",
            )
        key = read_text(self.table.get("conversation_id")) or read_text(self.table.get("id"))
        created = read_moment(self.table.get("create_time"))
        # All ids are derived from the key, so a conversation without an id needs another one.
        key = key or f"{self.table.get('create_time')} {self.table.get('title')}"
        self.draft = Draft(SOURCE, key, self.place, created)
        path = _find_path(mapping, self.table.get("current_node"))
        shown_nodes = frozenset(path)
        for node in path:
            self._read_message(node, read_table(mapping[node].get("message")))
        for node, other in mapping.items():
            message = read_table(read_table(other).get("message"))
            if node not in shown_nodes and _has_text(message):
                self._add_loss(node, "a message of a branch that is not shown")
        return self.draft.finish(read_text(self.table.get("title")))

    def _add_loss(self, node: str, reason: str, kind: LossKind = LossKind.DROPPED) -> None:
        self.draft.add_loss(f".mapping.{node}", reason, kind)

    def _read_message(self, node: str, message: dict[str, Any]) -> None:
        content, metadata = read_table(message.get("content")), read_table(message.get("metadata"))
        author, kind = read_table(message.get("author")), read_text(content.get("content_type"))
        self.draft.begin(node, read_moment(message.get("create_time")))
        match author.get("role"):
            case "user" | "system" if kind == "user_editable_context":
                # The user's custom instructions for all conversations, which the export lists among
                # the messages.
                texts = [content.get("user_profile"), content.get("user_instructions")]
                self.draft.add_supervisor([TextualContent(text) for text in texts if text])
            case "assistant" | "system" if kind == "model_editable_context":
                # What the service remembers of the user.
                self.draft.add_supervisor(self._read_contents(node, kind, content))
            case "user":
                attached = self._read_attachments(node, content, metadata)
                self.draft.add_user([*self._read_contents(node, kind, content), *attached])
            case "system":
                self.draft.add_supervisor(self._read_contents(node, kind, content))
            case "assistant":
                self._set_origin(message, metadata)
                self._read_answer(node, kind, content, message)
            case "tool":
                pictures = self._read_pictures(node, metadata)
                self._read_result(node, kind, content, read_text(author.get("name")), pictures)
            case None if not message:
                pass  # the root of the tree
            case role:
                self._add_loss(node, f"unknown role {role!r}")

    def _set_origin(self, message: dict[str, Any], metadata: dict[str, Any]) -> None:
        native = read_text(read_table(metadata.get("finish_details")).get("type")) or None
        reason = _STOP_REASONS.get(native or "", StopReason.UNKNOWN)
        if message.get("status") == "in_progress":
            reason = StopReason.INTERRUPTED
        model = read_text(metadata.get("model_slug")) or read_text(
            self.table.get("default_model_slug")
        )
        self.draft.origin = Origin(
            provider=SOURCE,
            model=model or "unknown",
            stop_reason=reason,
            native_stop_reason=native,
        )

    def _read_answer(
        self, node: str, kind: str, content: dict[str, Any], message: dict[str, Any]
    ) -> None:
        recipient = read_text(message.get("recipient"))
        if kind == "thoughts":
            for thought in read_tables(content.get("thoughts")):
                summary = read_text(thought.get("summary"))
                text = read_text(thought.get("content"))
                if summary or text:
                    reasoning = ReasoningContent(text=text, summary=[summary] if summary else [])
                    self.draft.add_answer([reasoning])
            return
        contents = self._read_contents(node, kind, content)
        if recipient in ("", "all"):
            citations = _read_citations(read_table(message.get("metadata")))
            texts = [each for each in contents if isinstance(each, TextualContent)]
            if citations and len(texts) == 1:  # the spans are those of the whole text
                at = contents.index(texts[0])
                contents[at] = attrs.evolve(texts[0], citations=citations)
            elif citations:
                self._add_loss(node, "the sources of an answer with several parts")
            self.draft.add_answer(contents)
            return
        text = "\n".join(each.text for each in contents if isinstance(each, TextualContent))
        # A result will name its tool, not its call.
        self.pending[recipient] = node
        arguments_format = "json" if _is_object(text) else "text"
        # The service has executed it. If its owner was not the vendor, the engine would have to
        # execute the call.
        self.draft.add_invocation(node, recipient, text, arguments_format, Owner.VENDOR)

    def _read_result(
        self,
        node: str,
        kind: str,
        content: dict[str, Any],
        name: str,
        pictures: list[AnyContent],
    ) -> None:
        contents = [*self._read_contents(node, kind, content), *pictures]
        if not contents:
            return
        # Some results name the tool without its function.
        parts = (each for each in self.pending if each.partition(".")[0] == name)
        call = self.pending.pop(name if name in self.pending else next(parts, name), None)
        if call is None:  # a result must have a call, so this one becomes a document
            self.draft.add_document(contents, name or None)
        else:
            self.draft.add_result(
                call, name, contents, is_error=kind == "system_error", owner=Owner.VENDOR
            )

    def _read_contents(self, node: str, kind: str, content: dict[str, Any]) -> list[AnyContent]:
        field = _TEXTS.get(kind)
        if kind == "reasoning_recap":
            self._add_loss(node, "a summary of reasoning")
            return []
        if field is None:
            field = next((each for each in _FIELDS if content.get(each)), "")
            reason = f"content of the kind {kind!r} has no counterpart"
            if field:
                reason = f"content of the kind {kind!r} is kept as its text"
                self._add_loss(node, reason, LossKind.COERCED)
            elif content:
                self._add_loss(node, reason)
        value = content.get(field)
        contents: list[AnyContent] = []
        for part in read_list(value) if field == "parts" else [value]:
            if isinstance(part, str):
                if part:
                    contents.append(TextualContent(part))
            elif isinstance(part, dict):
                contents += self._read_part(node, part)
            elif part is not None:
                self._add_loss(node, "a part that is neither a text nor an object")
        return contents

    def _read_part(self, node: str, part: dict[str, Any]) -> list[AnyContent]:
        kind = read_text(part.get("content_type"))
        if kind == "real_time_user_audio_video_asset_pointer":
            frames = read_list(part.get("frames_asset_pointers"))
            if frames:
                self._add_loss(node, "frames of a video")
            part = read_table(part.get("audio_asset_pointer"))
            kind = read_text(part.get("content_type"))
        if kind in ("audio_transcription", "text"):
            text = read_text(part.get("text"))
            return [TextualContent(text)] if text else []
        if kind in ("image_asset_pointer", "audio_asset_pointer"):
            pointer = read_text(part.get("asset_pointer")).partition("://")[2]
            return self._read_media(node, pointer.partition("#")[0], "", kind.partition("_")[0])
        if part:
            self._add_loss(node, f"a part of the kind {kind!r} has no counterpart")
        return []

    def _read_attachments(
        self, node: str, content: dict[str, Any], metadata: dict[str, Any]
    ) -> list[AnyContent]:
        """Read attached files, without the pictures that are among the parts of the message."""
        parts = read_tables(content.get("parts"))
        shown = [read_text(part.get("asset_pointer")) for part in parts]
        contents: list[AnyContent] = []
        for attachment in read_tables(metadata.get("attachments")):
            mime_type = read_text(attachment.get("mime_type") or attachment.get("mimeType"))
            identity = read_text(attachment.get("id"))
            is_image = mime_type.startswith("image/")
            if is_image and any(identity in pointer for pointer in shown):
                continue
            kind = "image" if is_image else "file"
            contents += self._read_media(node, identity, mime_type, kind)
        return contents

    def _read_pictures(self, node: str, metadata: dict[str, Any]) -> list[AnyContent]:
        """Read the pictures that the code interpreter has drawn."""
        messages = read_tables(read_table(metadata.get("aggregate_result")).get("messages"))
        contents: list[AnyContent] = []
        for message in messages:
            if message.get("message_type") == "image":
                pointer = read_text(message.get("image_url")).partition("://")[2]
                contents += self._read_media(node, pointer, "", "image")
        return contents

    def _read_media(self, node: str, identity: str, mime_type: str, kind: str) -> list[AnyContent]:
        media = self.export.find_media(identity)
        if media is None:
            description = {"image": "a picture", "audio": "sound"}.get(kind, "a file")
            self._add_loss(node, f"{description} whose bytes are not in the export")
            return []
        name, data = media
        fallback = {"image": "image/png", "audio": "audio/wav"}.get(
            kind, "application/octet-stream"
        )
        mime_type = mime_type or _MIME_TYPES.get(name.rpartition(".")[2].lower(), fallback)
        return [make_media(mime_type, data=data, name=name)]


def _read_citations(metadata: dict[str, Any]) -> list[Citation]:
    """Read the sources of an answer, with the spans of the marks that refer to them."""
    citations = []
    for reference in read_tables(metadata.get("content_references")):
        span = read_count(reference.get("start_idx")), read_count(reference.get("end_idx"))
        for item in read_tables(reference.get("items")) or [reference]:
            url, title = read_text(item.get("url")), read_text(item.get("title"))
            if url:
                start, end = span if None not in span else (None, None)
                citations.append(Citation(start=start, end=end, url=url, title=title or None))
    return list(dict.fromkeys(citations))


def _find_path(mapping: dict[str, Any], current: object) -> list[str]:
    """Return the nodes from the root to the current node, or else to the newest leaf."""
    if not (isinstance(current, str) and isinstance(mapping.get(current), dict)):
        parents = {read_table(node).get("parent") for node in mapping.values()}
        leaves = [name for name, node in mapping.items() if name not in parents and node]
        current = max(leaves, key=lambda name: _read_timestamp(mapping[name]), default=None)
    path: dict[str, None] = {}
    # A foreign file may contain a cycle.
    while isinstance(current, str) and current not in path:
        node = mapping.get(current)
        if not isinstance(node, dict):
            break
        path[current] = None
        current = node.get("parent")
    return list(path)[::-1]


def _read_timestamp(node: object) -> float:
    moment = read_moment(read_table(read_table(node).get("message")).get("create_time"))
    return moment.timestamp() if moment else 0.0


def _has_text(message: dict[str, Any]) -> bool:
    """Return whether a message has text; the many empty messages are skipped."""
    content = read_table(message.get("content"))
    kind = read_text(content.get("content_type"))
    value = content.get(_TEXTS.get(kind, ""), kind)
    return any(value) if isinstance(value, list) else bool(value)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
