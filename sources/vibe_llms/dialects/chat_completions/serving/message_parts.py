"""Contents of a client's messages: parts and reasoning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from vibe_llms.dialects.chat_completions.calling.citations import read_image
from vibe_llms.dialects.chat_completions.calling.reasoning import join_texts, note_plain_fields
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.tables import (
    DETAIL_FIELDS,
    FILE_NAMES,
    REASONING_DETAILS,
    REASONING_FIELDS,
)
from vibe_llms.dialects.extras import collect_extras, keep_native, make_native
from vibe_llms.dialects.payloads import decode_exactly, read_payload, read_url
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    FileContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    VideoContent,
)
from vibe_llms.messages.trusting import make_text


def read_reasoning(message: Mapping[str, Any]) -> list[ReasoningContent]:
    """Return the reasoning of a message, in order."""
    texts = {name: message[name] for name in REASONING_FIELDS if _is_filled(message.get(name))}
    details = [read_detail(detail) for detail in message.get(REASONING_DETAILS) or ()]
    if not details:
        return _read_fields(texts)
    return attach_fields(details, texts)


def read_detail(detail: Mapping[str, Any]) -> ReasoningContent:
    """Return the content of one entry of ``reasoning_details``."""
    other_fields = dict(detail)
    fields: dict[str, Any] = {}
    for name, channel in DETAIL_FIELDS.get(str(detail.get("type")), ()):
        if isinstance(other_fields.get(name), str) and other_fields[name]:
            value = other_fields.pop(name)
            fields[channel] = (value,) if channel == "summary" else value
    return ReasoningContent(**fields, native=make_native(PROTOCOL, {"detail": other_fields}))


def attach_fields(
    details: Sequence[ReasoningContent], texts: Mapping[str, str]
) -> list[ReasoningContent]:
    """Record in the first content which fields repeat the details, and the texts of others."""
    if not texts:
        return list(details)
    import msgspec

    first = details[0]
    assert first.native is not None
    native_fields = msgspec.json.decode(first.native.data) | note_plain_fields(
        join_texts(details), texts
    )
    first_with_note = ReasoningContent(
        text=first.text,
        summary=first.summary,
        signature=first.signature,
        native=make_native(PROTOCOL, native_fields),
    )
    return [first_with_note, *details[1:]]


def _read_fields(texts: Mapping[str, str]) -> list[ReasoningContent]:
    by_text: dict[str, list[str]] = {}
    for name, text in texts.items():
        by_text.setdefault(text, []).append(name)
    return [
        ReasoningContent(text=text, native=make_native(PROTOCOL, {"fields": names}))
        for text, names in by_text.items()
    ]


def _is_filled(text: object) -> bool:
    return isinstance(text, str) and text != ""


_AUDIO_TYPES: Final = {"mp3": "audio/mpeg", "wav": "audio/wav"}


def read_part(part: Any) -> AnyContent:
    """Return the content of a part; unknown parts are kept whole.

    Raises:
        TypeError: The value is not a part.
        KeyError: It has neither a type nor a text.
    """
    if part.__class__ is not dict and not isinstance(part, Mapping):
        raise TypeError(f"a part must be an object, not {type(part).__name__}")
    if part.get("type") is None and part.get("text") is None:
        raise KeyError("type")
    kind = str(part.get("type", "part"))
    extras = collect_extras(part, ("type", kind))
    read = _READERS.get(kind)
    content: AnyContent | None = read_image(part) if kind == "image_url" else None
    if read is not None:
        content = read(part.get(kind), extras)
    if content is not None:
        return content
    text = part.get("text")
    return NativeContent(
        kind=kind, native=make_native(PROTOCOL, part), text=text if isinstance(text, str) else ""
    )


def _read_text(text: Any, extras: dict[str, Any]) -> AnyContent | None:
    if not isinstance(text, str):
        return None
    return make_text(text, keep_native(PROTOCOL, extras))


def _read_refusal(text: Any, extras: dict[str, Any]) -> AnyContent | None:
    if not isinstance(text, str):
        return None
    return RefusalContent(text, native=make_native(PROTOCOL, {"type": "refusal", **extras}))


def _read_thinking(inner: Any, extras: dict[str, Any]) -> AnyContent | None:
    return read_thinking(inner, extras) if isinstance(inner, list) else None


def read_thinking(inner: list[Any], extras: Mapping[str, Any]) -> ReasoningContent:
    """Return a part of reasoning, as in Mistral's format; its references are kept."""
    is_one_text = len(inner) == 1 and all(
        isinstance(item, Mapping) and item.keys() == {"type", "text"} and item["type"] == "text"
        for item in inner
    )
    text = "".join(str(item.get("text", "")) for item in inner if isinstance(item, Mapping))
    part = dict(extras) if is_one_text else {**extras, "thinking": inner}
    return ReasoningContent(text=text, native=make_native(PROTOCOL, {"part": part}))


def _read_audio(value: Any, extras: dict[str, Any]) -> AnyContent | None:
    """Decode Base64 audio; Mistral sends no format, or a URL."""
    data_and_fields = _split(value, "data")
    if data_and_fields is None:
        return None
    data, inner = data_and_fields
    audio_format = inner.get("format")
    if audio_format in _AUDIO_TYPES:
        del inner["format"]
        mime_type = _AUDIO_TYPES[audio_format]
    else:
        mime_type = f"audio/{audio_format if isinstance(audio_format, str) else '*'}"
    is_bare = isinstance(value, str)
    is_url = is_bare and data.startswith(("http:", "https:", "data:"))
    fields = read_url(data, mime_type) if is_url else read_payload(data, mime_type)
    native_fields = _nest("input_audio", inner, extras) | ({"$bare": True} if is_bare else {})
    keep = keep_native if audio_format else make_native  # a client may omit the format
    return AudioContent(**fields, native=keep(PROTOCOL, native_fields))


def _read_audio_url(value: Any, extras: dict[str, Any]) -> AnyContent | None:
    url_and_fields = _split(value, "url")
    if url_and_fields is None:
        return None
    url, inner = url_and_fields
    native_fields = _nest("audio_url", inner, {"type": "audio_url", **extras})
    return AudioContent(**read_url(url, "audio/*"), native=make_native(PROTOCOL, native_fields))


def _read_video(value: Any, extras: dict[str, Any]) -> AnyContent | None:
    url_and_fields = _split(value, "url")
    if url_and_fields is None:
        return None
    url, inner = url_and_fields
    native_fields = _nest("video_url", inner, extras)
    return VideoContent(**read_url(url, "video/*"), native=make_native(PROTOCOL, native_fields))


def _read_file(file: Any, extras: dict[str, Any]) -> AnyContent | None:
    inner = collect_extras(file, ()) if isinstance(file, Mapping) else {}
    fields: dict[str, Any] = {"mime_type": "application/octet-stream"}
    if isinstance(inner.get("file_id"), str):
        fields["file_id"] = inner.pop("file_id")
    if isinstance(inner.get("file_data"), str):
        file_data = inner.pop("file_data")
        bare = None if file_data.startswith("data:") else decode_bare(file_data)
        fields |= bare or read_url(file_data, "application/octet-stream")
        if bare:
            extras = {**extras, "$bare": True}
        elif not file_data.startswith("data:"):
            extras = {**extras, "type": "file"}  # some vendors accept a URL there, others do not
    if len(fields) == 1:
        return None
    name = inner.pop("filename") if isinstance(inner.get("filename"), str) else None
    # Uploaded files keep even empty native data: these show which vendor has the file.
    keep = make_native if "file_id" in fields else keep_native
    return FileContent(**fields, name=name, native=keep(PROTOCOL, _nest("file", inner, extras)))


def decode_bare(text: str) -> dict[str, Any] | None:
    """Return the fields of a Base64 file without a type; ``None`` if it is not Base64."""
    data = decode_exactly(text) if text else None
    return None if data is None else {"mime_type": "application/octet-stream", "data": data}


def _read_file_url(kind: str, value: Any, extras: dict[str, Any]) -> AnyContent | None:
    """Decode a file in Perplexity's and Mistral's format: by its URL, or as bare Base64."""
    url_and_fields = _split(value, "url")
    if url_and_fields is None:
        return None
    url, inner = url_and_fields
    native_fields = _nest(kind, inner, {"type": kind, **extras})
    mime_type = "application/pdf" if kind == "pdf_url" else "application/octet-stream"
    bare = None if ":" in url else decode_bare(url)
    if bare:
        native_fields["$bare"] = True
    name_field = FILE_NAMES[kind]
    name = native_fields.pop(name_field) if isinstance(native_fields.get(name_field), str) else None
    return FileContent(
        **(bare or read_url(url, mime_type)), name=name, native=make_native(PROTOCOL, native_fields)
    )


_READERS: Final[Mapping[str, Callable[[Any, dict[str, Any]], AnyContent | None]]] = {
    "audio_url": _read_audio_url,
    "file": _read_file,
    "input_audio": _read_audio,
    "refusal": _read_refusal,
    "text": _read_text,
    "thinking": _read_thinking,
    "video_url": _read_video,
} | {kind: partial(_read_file_url, kind) for kind in FILE_NAMES}
"""Decoder of each type of part; returns ``None`` for invalid parts."""


def _nest(name: str, inner: Mapping[str, Any], extras: Mapping[str, Any]) -> dict[str, Any]:
    return {**extras, name: inner} if inner else dict(extras)


def _split(value: Any, name: str) -> tuple[str, dict[str, Any]] | None:
    """Return the text of a part, which may be in an object, and the other fields.

    Args:
        name: The name of the text within the object.
    """
    if isinstance(value, str):
        return value, {}
    if not isinstance(value, Mapping) or not isinstance(value.get(name), str):
        return None
    return value[name], collect_extras(value, (name,))
