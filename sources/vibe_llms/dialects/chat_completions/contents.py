"""Parts of messages as contents, with what has no common word beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from vibe_llms.dialects.chat_completions.payloads import read_payload, read_url
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.residues import keep_native, leave, seal_native
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    Citation,
    FileContent,
    ImageContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
    VideoContent,
)

_AUDIO_TYPES: Final = {"mp3": "audio/mpeg", "wav": "audio/wav"}
FILE_NAMES: Final = {
    "document_url": "document_name",
    "file_url": "file_name",
    "pdf_url": "file_name",
}
"""From a part that holds the URL of a file to its field for the file's name."""


def read_part(part: Any) -> AnyContent:
    """Returns the content of a part; one without a common word is kept whole.

    Raises:
        TypeError: It is no part at all.
    """
    if not isinstance(part, Mapping):
        raise TypeError(f"a part must be an object, not {type(part).__name__}")
    kind = str(part.get("type", "part"))
    rest = leave(part, "type", kind)
    read = _READERS.get(kind)
    content = None if read is None else read(part.get(kind), rest)
    if content is not None:
        return content
    text = part.get("text")
    return NativeContent(
        kind=kind, native=seal_native(PROTOCOL, part), text=text if isinstance(text, str) else ""
    )


def _read_text(text: Any, rest: dict[str, Any]) -> AnyContent | None:
    if not isinstance(text, str):
        return None
    return TextualContent(text, native=keep_native(PROTOCOL, rest))


def _read_refusal(text: Any, rest: dict[str, Any]) -> AnyContent | None:
    if not isinstance(text, str):
        return None
    return RefusalContent(text, native=seal_native(PROTOCOL, {"type": "refusal", **rest}))


def _read_thinking(inner: Any, rest: dict[str, Any]) -> AnyContent | None:
    return read_thinking(inner, rest) if isinstance(inner, list) else None


def read_thinking(inner: list[Any], rest: Mapping[str, Any]) -> ReasoningContent:
    """Returns a part of reasoning, as Mistral has it; its references stay as they are."""
    plain = len(inner) == 1 and all(
        isinstance(item, Mapping) and item.keys() == {"type", "text"} and item["type"] == "text"
        for item in inner
    )
    text = "".join(str(i.get("text", "")) for i in inner if isinstance(i, Mapping))
    part = dict(rest) if plain else {**rest, "thinking": inner}
    return ReasoningContent(text=text, native=seal_native(PROTOCOL, {"part": part}))


def read_citation(annotation: Mapping[str, Any]) -> Citation:
    """Returns the citation of an annotation, which is kept whole beside it."""
    source = annotation.get(str(annotation.get("type")))
    source = source if isinstance(source, Mapping) else annotation
    return Citation(
        start=_find_place(source.get("start_index")),
        end=_find_place(source.get("end_index")),
        cited_text=find_text(source.get("content")),
        title=find_text(source.get("title")) or find_text(source.get("name")),
        url=find_text(source.get("url")),
        file_id=find_text(source.get("file_id")),
        native=seal_native(PROTOCOL, annotation),
    )


def find_text(value: object) -> str | None:
    """Returns a text that says something; None for anything else that stands in its place."""
    return value if isinstance(value, str) and value else None


def _find_place(value: object) -> int | None:
    """Returns a place in a text, which some vendors write with a decimal point."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_place = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return value if is_place else None  # type: ignore[return-value]  # just told


def _nest(name: str, inner: Mapping[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    return {**rest, name: inner} if inner else dict(rest)


def _split(value: Any, name: str) -> tuple[str, dict[str, Any]] | None:
    """Returns the one text of a part, which may stand in an object, and what is left beside it.

    Args:
        name: Of the text within the object.
    """
    if isinstance(value, str):
        return value, {}
    if not isinstance(value, Mapping) or not isinstance(value.get(name), str):
        return None
    return value[name], leave(value, name)


def _read_image(value: Any, rest: dict[str, Any]) -> AnyContent | None:
    found = _split(value, "url")
    if found is None:
        return None
    url, inner = found
    detail = inner.pop("detail") if isinstance(inner.get("detail"), str) else None
    kept = _nest("image_url", inner, rest)
    return ImageContent(
        **read_url(url, "image/*"), detail=detail, native=keep_native(PROTOCOL, kept)
    )


def _read_audio(value: Any, rest: dict[str, Any]) -> AnyContent | None:
    """Reads sound in base 64; Mistral gives no format, or a URL."""
    found = _split(value, "data")
    if found is None:
        return None
    data, inner = found
    word = inner.pop("format") if inner.get("format") in _AUDIO_TYPES else inner.get("format")
    mime_type = _AUDIO_TYPES.get(str(word), f"audio/{word if isinstance(word, str) else '*'}")
    is_bare = isinstance(value, str)
    is_url = is_bare and data.startswith(("http:", "https:", "data:"))
    fields = read_url(data, mime_type) if is_url else read_payload(data, mime_type)
    kept = _nest("input_audio", inner, rest) | ({"$bare": True} if is_bare else {})
    keep = keep_native if word else seal_native  # a client's own may go without a format
    return AudioContent(**fields, native=keep(PROTOCOL, kept))


def _read_audio_url(value: Any, rest: dict[str, Any]) -> AnyContent | None:
    found = _split(value, "url")
    if found is None:
        return None
    url, inner = found
    kept = _nest("audio_url", inner, {"type": "audio_url", **rest})
    return AudioContent(**read_url(url, "audio/*"), native=seal_native(PROTOCOL, kept))


def _read_video(value: Any, rest: dict[str, Any]) -> AnyContent | None:
    found = _split(value, "url")
    if found is None:
        return None
    url, inner = found
    kept = _nest("video_url", inner, rest)
    return VideoContent(**read_url(url, "video/*"), native=seal_native(PROTOCOL, kept))


def _read_file(file: Any, rest: dict[str, Any]) -> AnyContent | None:
    inner = leave(file) if isinstance(file, Mapping) else {}
    fields: dict[str, Any] = {"mime_type": "application/octet-stream"}
    if isinstance(inner.get("file_id"), str):
        fields["file_id"] = inner.pop("file_id")
    if isinstance(inner.get("file_data"), str):
        given = inner.pop("file_data")
        data = None if given.startswith("data:") else decode_bare(given)
        fields |= data or read_url(given, "application/octet-stream")
        if data:
            rest = {**rest, "$bare": True}
        elif not given.startswith("data:"):
            rest = {**rest, "type": "file"}  # some take a URL there, others do not
    if len(fields) == 1:
        return None
    name = inner.pop("filename") if isinstance(inner.get("filename"), str) else None
    # Of an uploaded file also an empty native is kept: it says whose the file is.
    keep = seal_native if "file_id" in fields else keep_native
    return FileContent(**fields, name=name, native=keep(PROTOCOL, _nest("file", inner, rest)))


def decode_bare(text: str) -> dict[str, Any] | None:
    """Returns the fields of a file in base 64 without any word of its type; None if it is not."""
    fields = read_payload(text, "application/octet-stream") if text else {}
    return fields if "data" in fields else None


def _read_file_url(kind: str, value: Any, rest: dict[str, Any]) -> AnyContent | None:
    """Reads a file as Perplexity and Mistral have it: by its URL, or in bare base 64."""
    found = _split(value, "url")
    if found is None:
        return None
    url, inner = found
    kept = _nest(kind, inner, {"type": kind, **rest})
    mime_type = "application/pdf" if kind == "pdf_url" else "application/octet-stream"
    bare = None if ":" in url else decode_bare(url)
    if bare:
        kept["$bare"] = True
    word = FILE_NAMES[kind]
    name = kept.pop(word) if isinstance(kept.get(word), str) else None
    return FileContent(
        **(bare or read_url(url, mime_type)), name=name, native=seal_native(PROTOCOL, kept)
    )


_READERS: Final[Mapping[str, Callable[[Any, dict[str, Any]], AnyContent | None]]] = {
    "audio_url": _read_audio_url,
    "file": _read_file,
    "image_url": _read_image,
    "input_audio": _read_audio,
    "refusal": _read_refusal,
    "text": _read_text,
    "thinking": _read_thinking,
    "video_url": _read_video,
} | {kind: partial(_read_file_url, kind) for kind in FILE_NAMES}
"""From the type of a part to what reads it; it gives None where it cannot."""
