"""Translation of blocks of a message to contents, in requests and responses.

A block is an object with one field, whose name is the kind of the block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from vibe_llms.dialects.bedrock.calling.media import KINDS, normalize_medium
from vibe_llms.dialects.bedrock.quirks import PROTOCOL
from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.extras import collect_extras, keep_native, make_native, write_json
from vibe_llms.messages.contents import (
    Citation,
    ModelContent,
    NativeContent,
    ReasoningContent,
    TextualContent,
)

REDACTED: Final = "$redacted"
"""Note on reasoning whose signature is all of it."""

CITED: Final = "$cited"
"""Note on a text without citations whose block could have had some."""

JSON: Final = "$json"
"""Note on a text that is JSON, which results of tools can contain as data."""


def normalize_block(block: Mapping[str, Any]) -> ModelContent:
    """Return the content of a block; an unknown block is kept unchanged."""
    content: ModelContent | None = None
    match block:
        case {"text": str(text)}:
            native = keep_native(PROTOCOL, collect_extras(block, ("text",)))
            content = TextualContent(text, native=native)
        case {"reasoningContent": {"reasoningText": {"text": str(text)} as reasoning}}:
            signature = read_text(reasoning.get("signature"))
            extras = collect_extras(reasoning, ("text", "signature"))
            native = make_native(PROTOCOL, extras)
            content = ReasoningContent(text=text, signature=signature, native=native)
        case {"reasoningContent": {"redactedContent": str(data)} as reasoning}:
            extras = collect_extras(reasoning, ("redactedContent",))
            native = make_native(PROTOCOL, {REDACTED: True, **extras})
            content = ReasoningContent(signature=data, native=native)
        case {"citationsContent": {"content": [*parts]} as cited}:
            content = _normalize_cited(parts, cited.get("citations") or ())
        case {"json": value}:
            native = make_native(PROTOCOL, {JSON: True})
            content = TextualContent(write_json(value), native=native)
        case _:
            kind = find_kind(block)
            if kind in KINDS and isinstance(block[kind], Mapping):
                content = normalize_medium(kind, block[kind])
    return keep_block(block) if content is None else content


def _normalize_cited(parts: list[Any], citations: Iterable[Any]) -> TextualContent | None:
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        return None
    normalized = tuple(map(normalize_citation, citations))
    native = None if normalized else make_native(PROTOCOL, {CITED: True})
    return TextualContent("".join(map(str, texts)), citations=normalized, native=native)


def find_kind(block: Mapping[str, Any]) -> str:
    """Return the name of a block's field."""
    return next(iter(block), "block")


def keep_block(block: Mapping[str, Any]) -> NativeContent:
    """Keep a block unchanged, with its text for display."""
    text = ""
    match block:
        case {"searchResult": {"content": [*parts]}}:
            texts = (part.get("text") for part in parts if isinstance(part, Mapping))
            text = "\n".join(text for text in texts if isinstance(text, str))
        case {"guardContent": {"text": {"text": str(text)}}}:
            pass
    return NativeContent(kind=find_kind(block), native=make_native(PROTOCOL, block), text=text)


def normalize_citation(native: Mapping[str, Any]) -> Citation:
    """Return a citation."""
    parts = native.get("sourceContent") or ()
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    cited = "".join(text for text in texts if isinstance(text, str))
    location = native.get("location")
    web = location.get("web") if isinstance(location, Mapping) else None
    source = read_text(native.get("source")) or ""
    return Citation(
        cited_text=cited or None,
        title=read_text(native.get("title")),
        url=(read_text(web.get("url")) if isinstance(web, Mapping) else None)
        or (source if "://" in source else None),
        native=make_native(PROTOCOL, native),
    )
