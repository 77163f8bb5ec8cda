"""Input in sessions of Claude Code: messages of the user, and what Claude Code adds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

from vibe_llms.conversations.exchange.claude_code_branches import OUTPUTS
from vibe_llms.conversations.exchange.drafts import (
    Draft,
    decode_base64,
    make_media,
    read_list,
    read_table,
    read_text,
    write_json,
)
from vibe_llms.messages.contents import AnyContent, TextualContent
from vibe_llms.messages.losses import LossKind

_TITLE: Final = "Claude Code"
"""Title of documents that Claude Code adds in the user's name."""


def add_input(draft: Draft, record: Mapping[str, Any], contents: Sequence[AnyContent]) -> None:
    """Add a message of the user, or a document if Claude Code has added it."""
    first = contents[0].text if contents and isinstance(contents[0], TextualContent) else ""
    origin = read_text(read_table(record.get("origin")).get("kind")) or "human"
    is_added = record.get("isMeta") is True or origin != "human" or first.startswith(OUTPUTS)
    if is_added:
        draft.add_document(contents, _TITLE)
    else:
        draft.add_user(contents)


def read_blocks(draft: Draft, place: str, value: object) -> list[AnyContent]:
    """Read a text, or the blocks of the user or of a result."""
    blocks = [{"type": "text", "text": value}] if isinstance(value, str) else read_list(value)
    contents: list[AnyContent] = []
    for number, block in enumerate(map(read_table, blocks)):
        contents += read_block(draft, f"{place}[{number}]", block)
    return contents


def read_block(draft: Draft, place: str, block: Mapping[str, Any]) -> list[AnyContent]:
    """Read a block of the user or of a result."""
    source = read_table(block.get("source"))
    match block.get("type"), source.get("type"):
        case "text", _:
            text = read_text(block.get("text"))
            return [TextualContent(text)] if text else []
        case (("image" | "document"), "base64") if data := decode_base64(source.get("data")):
            title = read_text(block.get("title")) or None
            return [make_media(read_text(source.get("media_type")), data=data, name=title)]
        case (("image" | "document"), "url") if url := read_text(source.get("url")):
            kind = "image/*" if block["type"] == "image" else "application/pdf"
            return [make_media(kind, data=None, url=url)]
    reason = f"a block of the kind {block.get('type')!r} is kept as JSON"
    draft.add_loss(place, reason, LossKind.COERCED)
    return [TextualContent(write_json(block))]


def read_attachment(draft: Draft, place: str, attachment: Mapping[str, Any]) -> None:
    """Read an attachment: a queued message, a file, or something else as JSON."""
    kind = read_text(attachment.get("type")) or "attachment"
    if kind == "queued_command" and attachment.get("prompt"):
        contents = read_blocks(draft, f"{place}.prompt", attachment["prompt"])
        if contents:
            add_input(draft, attachment, contents)
            return
    content = _read_file(read_table(attachment.get("content"))) if kind == "file" else None
    if content is not None:
        title = read_text(attachment.get("displayPath")) or read_text(attachment.get("filename"))
        draft.add_document([content], title or kind)
        return
    reason = f"an attachment of the kind {kind!r} is kept as JSON"
    draft.add_loss(place, reason, LossKind.COERCED)
    draft.add_document([TextualContent(write_json(attachment))], kind)


def _read_file(content: Mapping[str, Any]) -> AnyContent | None:
    """Read a file that the user mentioned; ``None`` if it is neither text nor media."""
    file = read_table(content.get("file"))
    name = PurePath(read_text(file.get("filePath"))).name or None
    match content.get("type"):
        case "text" if text := read_text(file.get("content")):
            return TextualContent(text)
        case "image" if data := decode_base64(file.get("base64")):
            return make_media(read_text(file.get("type")) or "image/png", data=data, name=name)
        case "pdf" if data := decode_base64(file.get("base64")):
            return make_media("application/pdf", data=data, name=name)
    return None
