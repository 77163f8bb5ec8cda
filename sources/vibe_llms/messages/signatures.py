"""File signatures: detect the media type of data from their first bytes."""

from __future__ import annotations

import re
from typing import Final

_SIGNATURES: Final = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"RIFF....WEBP", "image/webp"),
    (rb"BM....\0\0\0\0", "image/bmp"),
    (rb"II\*\0|MM\0\*", "image/tiff"),
    (rb"....ftypheic", "image/heic"),
    (rb"....ftypavif", "image/avif"),
    (rb"....ftypM4A", "audio/mp4"),
    (rb"....ftyp", "video/mp4"),
    (rb"\x1a\x45\xdf\xa3", "video/webm"),
    (rb"RIFF....WAVE", "audio/wav"),
    (rb"fLaC", "audio/flac"),
    (rb"OggS", "audio/ogg"),
    (rb"ID3|\xff[\xfb\xf3]", "audio/mpeg"),
    (rb"%PDF-", "application/pdf"),
    (rb"PK\x03\x04", "application/zip"),
)
"""File signatures and their media types; the first match wins."""


def recognize(data: bytes, *kinds: str) -> str | None:
    """Return the media type of data; ``None`` if their first bytes are unknown.

    Args:
        kinds: Prefixes of the types to check, such as ``image/``; by default all types.
    """
    if not data:  # as an empty standard input, for which no expression need be compiled
        return None
    for beginning, media_type in _SIGNATURES:
        if media_type.startswith(kinds or "") and re.match(beginning, data, re.DOTALL):
            return media_type
    return None
