"""Sizes of images, from the headers of PNG, JPEG, GIF and WebP only."""

from __future__ import annotations

import struct
from typing import NamedTuple


class ImageSize(NamedTuple):
    """Width and height, in pixels."""

    width: int
    height: int


def measure_image(data: bytes) -> ImageSize | None:
    """Return the size of an image from its first bytes.

    Returns:
        ``None`` for another format, and if the data end before the size.
    """
    for signature, read in _READERS:
        if data.startswith(signature):
            try:
                size = read(data)
            except (struct.error, IndexError):
                return None
            return size if size and size.width > 0 and size.height > 0 else None
    return None


def _read_png(data: bytes) -> ImageSize | None:
    if data[12:16] != b"IHDR":
        return None
    return ImageSize(*struct.unpack_from(">II", data, 16))


def _read_gif(data: bytes) -> ImageSize:
    return ImageSize(*struct.unpack_from("<HH", data, 6))


def _read_jpeg(data: bytes) -> ImageSize | None:
    """Skip segments until a frame header, which has the size."""
    position = 2
    while data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:  # a fill byte
            position += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # these have no length
            position += 2
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, position + 5)
            return ImageSize(width, height)
        elif marker in (0xD9, 0xDA):  # image data, or end of the image
            return None
        else:
            position += 2 + int(struct.unpack_from(">H", data, position + 2)[0])
    return None


def _read_webp(data: bytes) -> ImageSize | None:
    """Read the first chunk: of a lossy image, a lossless one, or a container."""
    kind = data[12:16]
    if data[8:12] != b"WEBP":
        return None
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return ImageSize(width & 0x3FFF, height & 0x3FFF)
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return ImageSize((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)  # stored as one less
    if kind == b"VP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
        return ImageSize(width, height) if len(data) >= 30 else None
    return None


_READERS = (
    (b"\x89PNG\r\n\x1a\n", _read_png),
    (b"\xff\xd8", _read_jpeg),
    (b"GIF87a", _read_gif),
    (b"GIF89a", _read_gif),
    (b"RIFF", _read_webp),
)
