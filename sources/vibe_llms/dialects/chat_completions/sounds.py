"""What kind of sound some bytes are: a response does not say."""

from __future__ import annotations

from typing import Final

_BEGINNINGS: Final = (
    (b"RIFF", "audio/wav"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
)


def name_sound(data: bytes) -> str:
    """Returns the type of sound by its first bytes; without a word they are bare samples."""
    for beginning, mime_type in _BEGINNINGS:
        if data.startswith(beginning):
            return mime_type
    return "audio/pcm"
