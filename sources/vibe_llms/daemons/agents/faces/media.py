"""Media, texts and citations in the messages of all faces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from vibe_llms.daemons.agents.route_access import refuse
from vibe_llms.dialects.payloads import decode_base64, encode_bytes, read_url
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.contents import (
    ANY_TYPE,
    MEDIA_CLASSES,
    AnyContent,
    Citation,
    MediaContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
    choose_media,
)

_SCHEMES: Final = ("http://", "https://")


def read_base64(data: object, mime_type: object, name: object, place: str) -> MediaContent:
    """Read media with their data in Base64. Raises RequestError."""
    decoded = decode_base64(data) if isinstance(data, str) else None
    if not decoded:
        raise refuse(place, "The data of media must be base64.")
    return _produce(place, mime_type, name, data=decoded)


def read_link(url: object, mime_type: object, name: object, place: str) -> MediaContent:
    """Read media at a URL: of the web, or with the data in it. Raises RequestError."""
    if isinstance(url, str) and url.startswith("data:"):
        fields = read_url(url, str(mime_type or ANY_TYPE))
        if not fields.get("data"):
            raise refuse(place, "The data: URL must contain base64.")
        return _produce(place, fields["mime_type"], name, data=fields["data"])
    if not isinstance(url, str) or not url.startswith(_SCHEMES):
        raise refuse(place, "The URL of media must begin with https:, http: or data:.")
    return _produce(place, mime_type, name, url=url)


def _produce(
    place: str,
    mime_type: object,
    name: object,
    *,
    data: bytes | None = None,
    url: str | None = None,
) -> MediaContent:
    if not isinstance(mime_type, str | None) or not isinstance(name, str | None):
        raise refuse(place, "The media type and the name must be texts.")
    return choose_media(mime_type or "")(data=data, url=url, mime_type=mime_type or "", name=name)


def write_link(content: MediaContent) -> str:
    """Return a URL of media, with the data in it; empty if they are only at a vendor."""
    if content.data is not None:
        return f"data:{content.mime_type};base64,{encode_bytes(content.data)}"
    return content.url or ""


def write_text(contents: Iterable[AnyContent]) -> str:
    """Return the text of contents; media are named in brackets."""
    return "".join(filter(None, map(_write_text, contents)))


def _write_text(content: AnyContent) -> str:
    match content:
        case TextualContent() | RefusalContent() | NativeContent():
            return content.text
        case ReasoningContent():
            return content.text or "".join(content.summary)
        case _ if isinstance(content, MEDIA_CLASSES):
            return describe_media(content)
    return ""


def describe_media(content: MediaContent) -> str:
    """Return a text in place of media."""
    name = f" {content.name}" if content.name else ""
    return f"[{content.type}{name}: {content.mime_type}]"


def write_citation(citation: Citation) -> JsonObject:
    """Return the known fields of a citation, without the vendor's own."""
    return attrs.asdict(
        citation, filter=lambda field, value: field.name != "native" and value is not None
    )
