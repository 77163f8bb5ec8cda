"""Decompression of bodies in pieces, as a few bytes can expand to very many."""

from __future__ import annotations

import zlib
from typing import Final

from vibe_llms.wire.http.faults import BodyBroken, UnknownCoding

_PIECE_BYTES: Final = 262_144
"""Limit of the bytes decompressed at once."""

# Adding 16 to the window size selects the gzip format.
_WINDOW_SIZES: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Window sizes of zlib for the supported codings."""

_UNSUPPORTED: Final = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz"})


class Decompressor:
    """Decompressor of one body, piece by piece."""

    __slots__ = ("_compressed", "_has_begun", "_may_have_more", "_stream", "_window")

    def __init__(self, coding: str) -> None:
        self._window = _WINDOW_SIZES[coding]
        self._stream = zlib.decompressobj(self._window)
        self._compressed = b""
        self._has_begun = False
        self._may_have_more = False

    @property
    def has_more(self) -> bool:
        """True if there are bytes to decompress."""
        return self._may_have_more or bool(self._compressed)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if data and not self._has_begun:
            self._has_begun = True
            if self._window == 15 and data[0] & 0x0F != 8:  # some servers omit the zlib header
                self._window = -15
                self._stream = zlib.decompressobj(-15)
        self._compressed = self._compressed + data if self._compressed else data

    def read(self) -> bytes:
        """Return decompressed bytes; ``b""`` if more input is needed.

        Raises:
            BodyBroken: The data are damaged.
        """
        stream = self._stream
        if stream.eof:
            self._may_have_more = False
            if self._window != 31 or not self._compressed.startswith(b"\x1f"):
                self._compressed = b""  # ignore bytes after the end
                return b""
            stream = self._stream = zlib.decompressobj(31)  # gzip data may have several members
        try:
            data = stream.decompress(self._compressed, _PIECE_BYTES)
        except zlib.error as error:
            raise BodyBroken from error
        self._compressed = stream.unused_data if stream.eof else stream.unconsumed_tail
        self._may_have_more = len(data) == _PIECE_BYTES
        return data

    def find_fault(self) -> BodyBroken | None:
        """Return the fault of a truncated body, at the end of the input."""
        return BodyBroken() if self._has_begun and not self._stream.eof else None


def choose_decompressor(coding: str) -> Decompressor | None:
    """Return the decompressor for a content coding; ``None`` for an uncompressed body.

    Raises:
        UnknownCoding: The coding was not requested.
    """
    name = coding.strip().lower()
    if name in _WINDOW_SIZES:
        return Decompressor(name)
    # Other words, such as "identity", do not name a compression.
    if name in _UNSUPPORTED:
        raise UnknownCoding(name)
    return None
