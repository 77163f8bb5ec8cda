"""Translation of blocks of a message to contents, in requests and responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.extras import collect_extras, keep_native, make_native
from vibe_llms.dialects.messages.calling.media import (
    normalize_document,
    normalize_image,
    normalize_upload,
)
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.messages.contents import (
    AnyContent,
    Citation,
    NativeContent,
    ReasoningContent,
    TextualContent,
)


def normalize_block(block: Mapping[str, Any]) -> AnyContent:
    """Return the content of a block; an unknown block is kept unchanged."""
    content: AnyContent | None = None
    match block:
        case {"type": "text", "text": str(text)}:
            citations = tuple(map(normalize_citation, block.get("citations") or ()))
            native = keep_native(PROTOCOL, collect_text_extras(block))
            content = TextualContent(text, citations=citations, native=native)
        case {"type": "thinking", "thinking": str(text)}:
            signature = read_text(block.get("signature"))
            native = make_native(PROTOCOL, collect_thinking_extras(block))
            content = ReasoningContent(text=text, signature=signature, native=native)
        case {"type": "redacted_thinking", "data": str(signature)}:
            native = make_native(PROTOCOL, collect_extras(block, ("data",)))
            content = ReasoningContent(signature=signature, native=native)
        case {"type": "image"}:
            content = normalize_image(block)
        case {"type": "document"}:
            content = normalize_document(block)
        case {"type": "container_upload"}:
            content = normalize_upload(block)
    return keep_block(block) if content is None else content


def keep_block(block: Mapping[str, Any]) -> NativeContent:
    """Keep a block unchanged, with its text for display."""
    match block:
        case {"type": "compaction", "content": str(text)}:
            pass
        case {"type": "search_result", "content": [*parts]}:
            texts = (part.get("text") for part in parts if isinstance(part, Mapping))
            text = "\n".join(text for text in texts if isinstance(text, str))
        case _:
            text = ""
    kind = str(block.get("type") or "block")
    return NativeContent(kind=kind, native=make_native(PROTOCOL, block), text=text)


def collect_text_extras(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return the native fields of a text block."""
    return collect_extras(block, ("type", "text", "citations"))


def collect_thinking_extras(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return the native fields of a thinking block."""
    return collect_extras(block, ("type", "thinking", "signature"))


def collect_invocation_extras(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return the native fields of a call of one of our invocables."""
    return collect_extras(block, ("type", "id", "name", "input"))


def normalize_citation(native: Mapping[str, Any]) -> Citation:
    """Return a citation of any kind; the source of a search result may be its URL."""
    source = read_text(native.get("source")) or ""
    source_url = source if "://" in source else None
    return Citation(
        cited_text=read_text(native.get("cited_text")),
        title=read_text(native.get("title")) or read_text(native.get("document_title")),
        url=read_text(native.get("url")) or source_url,
        file_id=read_text(native.get("file_id")),
        # The gateway writes other vendors' citations without an index, which this vendor rejects.
        native=None if native.get("encrypted_index") == "" else make_native(PROTOCOL, native),
    )
