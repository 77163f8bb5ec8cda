"""Pictures, as this dialect has them: bytes in base 64 without a word about what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vibe_llms.dialects.payloads import decode_exactly
from vibe_llms.messages.contents import AudioContent, ImageContent, MediaContent

_SIGNATURES: Final = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"BM", "image/bmp"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftypheic", "image/heic"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"OggS", "audio/ogg"),
)
UNKNOWN_TYPE: Final = "application/octet-stream"


def detect_type(data: bytes) -> str:
    """Tells by its first bytes what a medium is; ``application/octet-stream`` where they do not."""
    for offset, signature, mime_type in _SIGNATURES:
        if data.startswith(signature, offset):
            return mime_type
    return UNKNOWN_TYPE


def read_media(images: object) -> list[MediaContent] | None:
    """Reads the ``images`` of a message; ``None`` where one of them is no plain base 64."""
    if not isinstance(images, Sequence) or isinstance(images, str):
        return None
    contents: list[MediaContent] = []
    for text in images:
        data = decode_exactly(text) if isinstance(text, str) else None
        if not data:
            return None
        mime_type = detect_type(data)
        kind = AudioContent if mime_type.startswith("audio/") else ImageContent
        contents.append(kind(mime_type=mime_type, data=data))
    return contents
