"""Images, files and audio as parts of a message, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import collect_extras, keep_native, make_native, merge
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.media_types import TYPES_BY_SUFFIX, name_file
from vibe_llms.dialects.payloads import (
    AUDIO_FORMATS,
    compose_data_url,
    decode_base64,
    encode_payload,
    read_url,
)
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.messages.contents import (
    AudioContent,
    FileContent,
    ImageContent,
    Native,
)

ANY_FILE: Final = "application/octet-stream"


def read_image(part: Mapping[str, Any]) -> ImageContent | None:
    """Return the image of an ``input_image`` or of a screenshot; ``None`` without a source."""
    extras = collect_extras(part, ("type", "detail"))
    url, file_id, detail = part.get("image_url"), part.get("file_id"), part.get("detail")
    if isinstance(url, str) and url:
        del extras["image_url"]
        native = keep_native(PROTOCOL, extras)
        return ImageContent(**read_url(url, "image/*"), detail=detail, native=native)
    if isinstance(file_id, str):
        del extras["file_id"]
        native = make_native(PROTOCOL, extras)
        return ImageContent(mime_type="image/*", file_id=file_id, detail=detail, native=native)
    return None


def write_image(content: ImageContent, path: str, extras: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``input_image``. Raises RequestError if the bytes are missing."""
    part: dict[str, Any] = {"type": "input_image", "detail": content.detail or "auto"}
    if content.url and content.data is None:
        part["image_url"] = content.url
    elif content.file_id is not None and content.data is None:
        part["file_id"] = content.file_id
    else:
        part["image_url"] = compose_data_url(content, path)
    return merge(part, extras)


def read_file(part: Mapping[str, Any]) -> FileContent | None:
    """Return the document of an ``input_file``; ``None`` without a source or if invalid."""
    extras = collect_extras(part, ("type", "filename"))
    file_id, url, data = (part.get(name) for name in ("file_id", "file_url", "file_data"))
    name = part.get("filename")
    name = name if isinstance(name, str) else None
    mime_type = _guess_type(name)
    if isinstance(data, str):
        del extras["file_data"]
        return _read_file_data(data, name, mime_type, extras)
    if isinstance(file_id, str):
        del extras["file_id"]
        native: Native | None = make_native(PROTOCOL, extras)
        return FileContent(mime_type=mime_type, file_id=file_id, name=name, native=native)
    if isinstance(url, str):
        del extras["file_url"]
        native = keep_native(PROTOCOL, extras)
        return FileContent(mime_type=mime_type, url=url, name=name, native=native)
    return None


def _read_file_data(
    data: str, name: str | None, mime_type: str, extras: dict[str, Any]
) -> FileContent | None:
    if data.startswith("data:"):  # undecodable data are passed on, for the vendor to judge
        return FileContent(
            **read_url(data, mime_type), name=name, native=keep_native(PROTOCOL, extras)
        )
    bare = decode_base64(data)
    if bare is None:
        return None
    native = make_native(PROTOCOL, extras | {"$bare": True})
    return FileContent(mime_type=mime_type, data=bare, name=name, native=native)


def write_file(
    content: FileContent, path: str, extras: Mapping[str, Any], ledger: Ledger
) -> dict[str, Any]:
    """Return the ``input_file``. Raises RequestError if the bytes are missing."""
    part: dict[str, Any] = {"type": "input_file"}
    name = content.name or content.title
    if content.url and content.data is None:
        name_of_url = "file_data" if content.url.startswith("data:") else "file_url"
        part[name_of_url] = content.url
    elif content.file_id is not None and content.data is None:
        part["file_id"] = content.file_id
    else:
        compose = encode_payload if extras.get("$bare") else compose_data_url
        part["file_data"] = compose(content, path)
        if not name:
            name = name_file(content)
            ledger.synthesize(f"{path}.name", "the vendor requires a file name; one was generated")
    if name is not None:
        part["filename"] = name
    return merge(part, extras)


def read_audio(part: Mapping[str, Any]) -> AudioContent | None:
    """Return the audio of an ``input_audio``; ``None`` if it is invalid."""
    audio = part.get("input_audio")
    if not isinstance(audio, Mapping) or not isinstance(audio.get("data"), str):
        return None
    data, audio_format = decode_base64(audio["data"]), audio.get("format")
    if data is None:
        return None
    mime_type = "audio/mpeg" if audio_format == "mp3" else f"audio/{audio_format or 'wav'}"
    native = make_native(PROTOCOL, collect_extras(part, ("type", "input_audio")))
    return AudioContent(mime_type=mime_type, data=data, native=native)


def write_audio(content: AudioContent, path: str, extras: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``input_audio``. Raises RequestError if the bytes are missing."""
    audio_format = AUDIO_FORMATS.get(content.mime_type)
    if audio_format is None:
        audio_format = content.mime_type.removeprefix("audio/")
    audio = {"data": encode_payload(content, path), "format": audio_format}
    return merge({"type": "input_audio", "input_audio": audio}, extras)


def _guess_type(name: str | None) -> str:
    suffix = (name or "").rpartition(".")[2].lower()
    return TYPES_BY_SUFFIX.get(suffix, ANY_FILE)
