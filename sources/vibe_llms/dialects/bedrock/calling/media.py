"""Images, documents, audio and videos, in both directions.

A medium has a format instead of a media type, and its bytes or an address in Amazon S3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.bedrock.quirks import PROTOCOL
from vibe_llms.dialects.bedrock.tables import FORMATS
from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.extras import collect_extras, keep_native, merge
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.media_types import is_text
from vibe_llms.dialects.payloads import decode_base64, encode_bytes, read_bytes
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import (
    AudioContent,
    FileContent,
    ImageContent,
    MediaContent,
    VideoContent,
    compute_content_id,
)

KINDS: Final[Mapping[str, type[MediaContent]]] = {
    "audio": AudioContent,
    "document": FileContent,
    "image": ImageContent,
    "video": VideoContent,
}
"""The class of each kind of medium, by the name of its block."""

_NAMES: Final = {"audio": "audio", "file": "document", "image": "image", "video": "video"}
"""The name of the block for each type of content."""

_FORMATS_BY_TYPE: Final = {
    kind: {mime_type: name for name, mime_type in formats.items()}
    for kind, formats in FORMATS.items()
}
_S3: Final = "s3://"
_PARTS_SEPARATOR: Final = "\n\n"
_LENGTHS: Final = "$lengths"
_TEXT_SOURCE: Final = "$source"
"""Notes on a document: the lengths of its parts, and the field with its text."""

_FORBIDDEN: Final = re.compile(r"[^\w \-()\[\]]|_", re.ASCII)
"""Characters that a document's name cannot contain."""
_MAX_NAME: Final = 200


def normalize_medium(kind: str, fields: Mapping[str, Any]) -> MediaContent | None:
    """Return a medium; ``None`` if its source is unknown.

    Args:
        kind: The name of its block.
        fields: The fields of the block.
    """
    word = read_text(fields.get("format"))
    mime_type = FORMATS[kind].get(word or "")
    found = _read_source(fields.get("source"))
    if found is None:
        return None
    facts, notes = found
    extras = {**collect_extras(fields, ("format", "name", "source", "context")), **notes}
    if mime_type is None:
        mime_type = f"{kind}/{word}" if word else f"{kind}/*"
        if kind == "document":
            mime_type = "text/plain" if _TEXT_SOURCE in notes else "application/octet-stream"
        if word != _find_format(kind, mime_type):
            extras["format"] = word
    if kind != "document":
        return KINDS[kind](mime_type=mime_type, native=keep_native(PROTOCOL, extras), **facts)
    return FileContent(
        mime_type=mime_type,
        name=read_text(fields.get("name")),
        context=read_text(fields.get("context")),
        native=keep_native(PROTOCOL, extras),
        **facts,
    )


def _read_source(source: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the common fields of a source, and its native fields."""
    match source:
        case {"bytes": str(text)}:
            data = decode_base64(text)
            extras = collect_extras(source, ("bytes",))
            return None if data is None else ({"data": data}, _nest(extras))
        case {"s3Location": {"uri": str(uri)} as location}:
            inner = collect_extras(location, ("uri",))
            extras = collect_extras(source, ("s3Location",)) | (
                {"s3Location": inner} if inner else {}
            )
            return {"url": uri}, _nest(extras)
        case {"text": str(text)}:
            return _read_text_source(text, {_TEXT_SOURCE: "text"})
        case {"content": [*parts]} if parts and all(map(_is_text_part, parts)):
            texts = [part["text"] for part in parts]
            notes = {_TEXT_SOURCE: "content", _LENGTHS: [len(text) for text in texts]}
            return _read_text_source(_PARTS_SEPARATOR.join(texts), notes)
    return None


def _nest(extras: dict[str, Any]) -> dict[str, Any]:
    return {"source": extras} if extras else {}


def _read_text_source(
    text: str, notes: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    try:
        return {"data": text.encode("utf-8")}, notes
    except UnicodeEncodeError:
        return None


def _is_text_part(part: Any) -> bool:
    return isinstance(part, Mapping) and part.keys() == {"text"} and isinstance(part["text"], str)


def nativize_medium(
    content: MediaContent, path: str, canister: AnyCanister | None, ledger: Ledger
) -> dict[str, Any] | None:
    """Return a block; ``None``, with a loss, without bytes and an address in Amazon S3.

    Raises:
        RequestError: The bytes are still in a store.
    """
    kind = _NAMES[content.type]
    is_elsewhere = content.data is None and content.content_id is None
    if is_elsewhere and not (content.url or "").startswith((_S3, "data:")):
        ledger.withhold(path, f"the vendor takes the bytes of the {kind}, or its address in S3")
        return None
    extras = ledger.read_sendable(content.native, path, canister)
    fields: dict[str, Any] = {}
    word = extras.pop("format", None) or _find_format(kind, content.mime_type)
    if isinstance(content, FileContent):
        word, fields = _describe_document(content, word, path, ledger)
    else:
        for name in ("detail", "name", "transcript"):
            if getattr(content, name, None) is not None:
                ledger.drop(f"{path}.{name}", f"this protocol has no such field of {kind}")
    source = _write_source(content, path, extras, ledger)
    return {kind: merge({"format": word, **fields, "source": source}, extras)}


def _find_format(kind: str, mime_type: str) -> str:
    """Return the format for a media type; for an unknown type, a word that the vendor can judge."""
    plain = mime_type.partition(";")[0].strip().lower()
    found = _FORMATS_BY_TYPE[kind].get(plain)
    if found is None and kind == "document" and is_text(plain):
        return "txt"
    return found or plain.partition("/")[2].removeprefix("x-")


def _describe_document(
    content: FileContent, word: str, path: str, ledger: Ledger
) -> tuple[str, dict[str, Any]]:
    """Return the format of a document, and its fields other than the source."""
    if FORMATS["document"].get(word) != content.mime_type and is_text(content.mime_type):
        ledger.coerce(f"{path}.mime_type", f"{content.mime_type} is sent as {word}")
    given, name = content.title or content.name, ""
    if content.title is not None and content.name is not None:
        ledger.drop(f"{path}.name", "a document has one name in this protocol: its title")
    if given is not None:
        name = _clean_name(given.removesuffix(f".{word}"))
        if name != given:
            ledger.coerce(f"{path}.name", f"{given!r} is sent as {name!r}, without its suffix")
    if not name:
        # The same for the same data, so that the vendor's cache recognizes it.
        identity = content.content_id or compute_content_id(str(content.url).encode())
        name = f"document-{identity[:8]}"
        ledger.synthesize(
            f"{path}.name", "the protocol requires a name; one was generated", is_routine=True
        )
    context = {"context": content.context} if content.context else {}
    return word, {"name": name, **context}


def _clean_name(name: str) -> str:
    """Return a name without forbidden characters and repeated blanks."""
    return " ".join(_FORBIDDEN.sub(" ", name).split())[:_MAX_NAME].rstrip()


def _write_source(
    content: MediaContent, path: str, extras: dict[str, Any], ledger: Ledger
) -> dict[str, Any]:
    form, lengths = extras.pop(_TEXT_SOURCE, None), extras.pop(_LENGTHS, None)
    if content.data is None and (content.url or "").startswith(_S3):
        return {"s3Location": {"uri": content.url}}
    data = read_bytes(content, path)
    if form is None:
        return {"bytes": encode_bytes(data)}
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        ledger.coerce(path, "bytes that are not UTF-8 were replaced")
        text = data.decode("utf-8", "replace")
    return {"text": text} if form == "text" else {"content": _split(text, lengths)}


def _split(text: str, lengths: Sequence[int] | None) -> list[dict[str, str]]:
    """Split a text into the original parts of a document, unless it was edited in the meantime."""
    parts, start = [], 0
    for length in lengths or ():
        parts.append({"text": text[start : start + length]})
        start += length + len(_PARTS_SEPARATOR)
    joined = _PARTS_SEPARATOR.join(part["text"] for part in parts)
    return parts if joined == text else [{"text": text}]
