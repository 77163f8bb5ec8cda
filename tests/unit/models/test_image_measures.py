"""The size of a picture, read from its first bytes."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.models.measures import ImageSize, measure_image

sizes = st.tuples(st.integers(1, 16_383), st.integers(1, 16_383)).map(lambda s: ImageSize(*s))
payloads = st.binary(max_size=40)

Writer: TypeAlias = Callable[[ImageSize, bytes], bytes]

# A real picture of one red pixel in each format, as common tools write it.
REAL = {
    "gif": "R0lGODlhAQABAIAAAP8AAP///ywAAAAAAQABAAACAkQBADs=",
    "png": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==",
    "webp": "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==",
}


def write_png(size: ImageSize, rest: bytes) -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", *size, 8, 6, 0, 0, 0)
    length, check = struct.pack(">I", 13), struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + length + header + check + rest


def write_gif(size: ImageSize, rest: bytes) -> bytes:
    return b"GIF89a" + struct.pack("<HH", *size) + rest


def write_jpeg(size: ImageSize, rest: bytes) -> bytes:
    """With an application segment, a fill byte, tables and a progressive frame."""
    exif = b"\xff\xe1" + struct.pack(">H", 2 + len(rest)) + rest
    tables = b"\xff\xff\xc4" + struct.pack(">H", 5) + b"abc"
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, size.height, size.width, 3)
    return b"\xff\xd8" + exif + tables + frame + b"rest"


def write_webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 4 + 8 + len(body)) + b"WEBP" + kind + b"\0\0\0\0" + body


def write_lossy(size: ImageSize, rest: bytes) -> bytes:
    body = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", size.width | 1 << 14, size.height) + rest
    return write_webp(b"VP8 ", body)


def write_lossless(size: ImageSize, rest: bytes) -> bytes:
    bits = size.width - 1 | size.height - 1 << 14 | 1 << 28
    return write_webp(b"VP8L", b"\x2f" + struct.pack("<I", bits) + rest)


def write_extended(size: ImageSize, rest: bytes) -> bytes:
    width, height = ((edge - 1).to_bytes(3, "little") for edge in size)
    return write_webp(b"VP8X", b"\x10\0\0\0" + width + height + rest)


WRITERS = [write_png, write_gif, write_jpeg, write_lossy, write_lossless, write_extended]


@pytest.mark.parametrize("write", WRITERS)
@given(size=sizes, rest=payloads)
def test_the_size_that_was_written_is_read(write: Writer, size: ImageSize, rest: bytes) -> None:
    """Whatever follows the header, and whatever comes before a JPEG's frame."""
    assert measure_image(write(size, rest)) == size


@pytest.mark.parametrize("kind", sorted(REAL))
def test_real_pictures_are_measured(kind: str) -> None:
    """One pixel, as common tools write it."""
    assert measure_image(base64.b64decode(REAL[kind])) == ImageSize(1, 1)


@pytest.mark.parametrize("write", WRITERS)
@given(size=sizes, cut=st.integers(0, 60))
def test_a_torn_picture_is_measured_rightly_or_not_at_all(write, size: ImageSize, cut: int) -> None:
    """No prefix of a picture is an error, or another size."""
    assert measure_image(write(size, b"")[:cut]) in (None, size)


@given(st.sampled_from([b"", b"\xff\xd8", b"GIF89a", b"RIFF", b"\x89PNG\r\n\x1a\n"]), st.binary())
def test_no_bytes_are_an_error(signature: bytes, rest: bytes) -> None:
    """Anything else has no size, or one that is larger than nothing."""
    size = measure_image(signature + rest)

    assert size is None or (size.width > 0 and size.height > 0)
