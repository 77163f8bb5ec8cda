"""Blocks of a message as contents: what requests and responses have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.messages.calling.citations import normalize_citation
from vibe_llms.dialects.messages.calling.media import (
    normalize_document,
    normalize_image,
    normalize_upload,
)
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.residues import keep_native, leave, seal_native
from vibe_llms.messages.contents import (
    AnyContent,
    NativeContent,
    ReasoningContent,
    TextualContent,
)


def normalize_block(block: Mapping[str, Any]) -> AnyContent:
    """Returns the content that a block is; one without a common word is kept whole."""
    content: AnyContent | None = None
    match block:
        case {"type": "text", "text": str(text)}:
            citations = tuple(map(normalize_citation, block.get("citations") or ()))
            native = keep_native(PROTOCOL, leave_text(block))
            content = TextualContent(text, citations=citations, native=native)
        case {"type": "thinking", "thinking": str(text)}:
            seal = read_text(block.get("signature")) or None
            native = seal_native(PROTOCOL, leave_thinking(block))
            content = ReasoningContent(text=text, seal=seal, native=native)
        case {"type": "redacted_thinking", "data": str(seal)}:
            native = seal_native(PROTOCOL, leave(block, "data"))
            content = ReasoningContent(seal=seal, native=native)
        case {"type": "image"}:
            content = normalize_image(block)
        case {"type": "document"}:
            content = normalize_document(block)
        case {"type": "container_upload"}:
            content = normalize_upload(block)
    return keep_block(block) if content is None else content


def keep_block(block: Mapping[str, Any]) -> NativeContent:
    """Keeps a block as it is, with the text of it that a reader may be shown."""
    match block:
        case {"type": "compaction", "content": str(text)}:
            pass
        case {"type": "search_result", "content": [*parts]}:
            texts = (part.get("text") for part in parts if isinstance(part, Mapping))
            text = "\n".join(text for text in texts if isinstance(text, str))
        case _:
            text = ""
    kind = str(block.get("type") or "block")
    return NativeContent(kind=kind, native=seal_native(PROTOCOL, block), text=text)


def leave_text(block: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a text block without a common word."""
    return leave(block, "type", "text", "citations")


def leave_thinking(block: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a thinking block without a common word."""
    return leave(block, "type", "thinking", "signature")


def leave_invocation(block: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a call of ours without a common word."""
    return leave(block, "type", "id", "name", "input")
