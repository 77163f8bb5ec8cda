"""Images, documents and the sources of their data, in both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.extras import collect_extras, keep_native, make_native, merge
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.media_types import is_text
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.payloads import decode_base64, encode_payload
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import FileContent, ImageContent, MediaContent, Native

_PARTS_SEPARATOR: Final = "\n\n"


def normalize_image(block: Mapping[str, Any]) -> ImageContent | None:
    """Return an image; ``None`` if its source is unknown."""
    source = _read_source(block.get("source"), "image/*")
    if source is None:
        return None
    facts, source_extras = source
    extras = collect_extras(block, ("type", "source")) | (
        {"source": source_extras} if source_extras else {}
    )
    return ImageContent(**facts, native=_produce_native(facts, extras))


def normalize_document(block: Mapping[str, Any]) -> FileContent | None:
    """Return a document; ``None`` if its source is unknown."""
    source = _read_source(block.get("source"), "application/pdf")
    if source is None:
        return None
    facts, source_extras = source
    extras = collect_extras(block, ("type", "source", "title", "context"))
    extras |= {"source": source_extras} if source_extras else {}
    return FileContent(
        **facts,
        title=read_text(block.get("title")),
        context=read_text(block.get("context")),
        native=_produce_native(facts, extras),
    )


def _produce_native(facts: Mapping[str, Any], extras: Mapping[str, Any]) -> Native | None:
    """Return extras as native data; for uploaded files even without any, to show the vendor."""
    return (make_native if "file_id" in facts else keep_native)(PROTOCOL, extras)


def normalize_upload(block: Mapping[str, Any]) -> FileContent | None:
    """Return a file in the container of the vendor's tools."""
    file_id = read_text(block.get("file_id"))
    if file_id is None:
        return None
    native = keep_native(PROTOCOL, collect_extras(block, ("file_id",)))  # the type identifies it
    return FileContent(mime_type="application/octet-stream", file_id=file_id, native=native)


def _read_source(source: Any, mime_type: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the common fields of a source, and its native fields."""
    match source:
        case {"type": "base64", "media_type": str(media_type), "data": str(text)}:
            data = decode_base64(text)
            if data is None:
                return None
            extras = collect_extras(source, ("type", "media_type", "data"))
            if is_text(media_type):  # otherwise it would be sent back as text
                extras["type"] = "base64"
            return {"mime_type": media_type, "data": data}, extras
        case {"type": "text", "data": str(text)}:
            media_type = read_text(source.get("media_type")) or "text/plain"
            extras = collect_extras(source, ("type", "media_type", "data"))
            if media_type != "text/plain":  # otherwise it would be sent back as plain text
                extras["type"] = "text"
            return _read_text_source(text, extras, media_type)
        case {"type": "url", "url": str(url)}:
            return {"mime_type": mime_type, "url": url}, collect_extras(source, ("type", "url"))
        case {"type": "file", "file_id": str(file_id)}:
            facts = {"mime_type": _find_file_type(mime_type), "file_id": file_id}
            return facts, collect_extras(source, ("type", "file_id"))
        case {"type": "content", "content": str(text)}:
            return _read_text_source(text, collect_extras(source, ("content",)))
        case {"type": "content", "content": [*parts]} if parts and all(map(_is_text_part, parts)):
            texts = [part["text"] for part in parts]
            extras = {
                **collect_extras(source, ("content",)),
                "lengths": [len(text) for text in texts],
            }
            return _read_text_source(_PARTS_SEPARATOR.join(texts), extras)
    return None


def _read_text_source(
    text: str, extras: dict[str, Any], mime_type: str = "text/plain"
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    try:
        return {"mime_type": mime_type, "data": text.encode("utf-8")}, extras
    except UnicodeEncodeError:
        return None


def _is_text_part(part: Any) -> bool:
    """Return whether a part of a document is only text."""
    match part:
        case {"type": "text", "text": str(), **rest}:
            return not any(value is not None for value in rest.values())
    return False


def _find_file_type(mime_type: str) -> str:
    return mime_type if mime_type.endswith("*") else "application/octet-stream"


def nativize_image(
    content: ImageContent, path: str, canister: AnyCanister | None, ledger: Ledger
) -> dict[str, Any]:
    """Return a block. Raises RequestError if the bytes are missing."""
    for name in ("detail", "name"):
        if getattr(content, name) is not None:
            ledger.drop(f"{path}.{name}", "an image has no such field in this protocol")
    extras = ledger.read_sendable(content.native, path, canister)
    return merge({"type": "image", "source": _write_source(content, path)}, extras)


def nativize_document(
    content: FileContent, path: str, canister: AnyCanister | None, ledger: Ledger
) -> dict[str, Any]:
    """Return a block. Raises RequestError if the bytes are missing."""
    extras = ledger.read_sendable(content.native, path, canister)
    if extras.get("type") == "container_upload" and content.file_id is not None:
        return {**extras, "file_id": content.file_id}
    title = content.title
    if content.name is not None and not title:
        ledger.coerce(f"{path}.name", "the name of the file is sent as its title")
        title = content.name
    elif content.name is not None:
        ledger.drop(f"{path}.name", "a document has a title instead of a name in this protocol")
    source = _write_file_source(content, path, extras.pop("source", {}), ledger)
    descriptions = {"title": title, "context": content.context}
    descriptions = {name: text for name, text in descriptions.items() if text}  # without empty ones
    return merge({"type": "document", "source": source, **descriptions}, extras)


def _write_file_source(
    content: FileContent, path: str, extras: dict[str, Any], ledger: Ledger
) -> dict[str, Any]:
    lengths = extras.pop("lengths", None)
    is_text_source = is_text(content.mime_type) or extras.get("type") in ("text", "content")
    if content.data is None or not is_text_source or extras.get("type") == "base64":
        return merge(_write_source(content, path), extras)
    text = _decode_text(content.data, path, ledger)
    if extras.get("type") == "content":
        return {"content": _split(text, lengths), **extras}
    if content.mime_type != "text/plain" and "type" not in extras:
        ledger.coerce(f"{path}.mime_type", f"{content.mime_type} is sent as text/plain")
    media_type = content.mime_type if "type" in extras else "text/plain"
    return {"type": "text", "media_type": media_type, "data": text, **extras}


def _decode_text(data: bytes, path: str, ledger: Ledger) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        ledger.coerce(path, "bytes that are not UTF-8 were replaced")
        return data.decode("utf-8", "replace")


def _split(text: str, lengths: Sequence[int] | None) -> str | list[dict[str, Any]]:
    """Split a text into the original parts of a document, unless it was edited in the meantime."""
    if lengths is None:
        return text
    parts, start = [], 0
    for length in lengths:
        parts.append({"type": "text", "text": text[start : start + length]})
        start += length + len(_PARTS_SEPARATOR)
    if _PARTS_SEPARATOR.join(part["text"] for part in parts) != text:
        return [{"type": "text", "text": text}]
    return parts


def _write_source(content: MediaContent, path: str) -> dict[str, Any]:
    if content.data is None and content.file_id is not None:
        return {"type": "file", "file_id": content.file_id}
    if content.data is None and content.url is not None:
        return {"type": "url", "url": content.url}
    data = encode_payload(content, path)
    return {"type": "base64", "media_type": content.mime_type, "data": data}
