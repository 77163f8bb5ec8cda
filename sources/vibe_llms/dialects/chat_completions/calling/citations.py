"""Citations and images of an answer, with their native fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.extras import collect_extras, keep_native, make_native
from vibe_llms.dialects.payloads import read_url
from vibe_llms.messages.contents import (
    Citation,
    ImageContent,
)


def read_citation(annotation: Mapping[str, Any]) -> Citation:
    """Return the citation of an annotation, which is kept as native data."""
    source = annotation.get(str(annotation.get("type")))
    source = source if isinstance(source, Mapping) else annotation
    return Citation(
        start=_read_index(source.get("start_index")),
        end=_read_index(source.get("end_index")),
        cited_text=read_text(source.get("content")),
        title=read_text(source.get("title")) or read_text(source.get("name")),
        url=read_text(source.get("url")),
        file_id=read_text(source.get("file_id")),
        native=make_native(PROTOCOL, annotation),
    )


def _read_index(value: object) -> int | None:
    """Return an index into a text, which some vendors write with a decimal point."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    return None


def read_image(part: Mapping[str, Any]) -> ImageContent | None:
    """Return the image of a part; ``None`` if it has no URL."""
    value = part.get("image_url")
    source = value if isinstance(value, Mapping) else {"url": value}
    url, detail = source.get("url"), source.get("detail")
    if not isinstance(url, str):
        return None
    known = ("url", "detail") if isinstance(detail, str) else ("url",)
    extras, inner = collect_extras(part, ("type", "image_url")), collect_extras(source, known)
    return ImageContent(
        **read_url(url, "image/*"),
        detail=detail if isinstance(detail, str) else None,
        native=keep_native(PROTOCOL, {**extras, "image_url": inner} if inner else extras),
    )
