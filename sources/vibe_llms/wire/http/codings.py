"""Decompression of bodies in pieces, as a few bytes can expand to many."""

from __future__ import annotations

import zlib
from typing import Final

from vibe_llms.wire.http.faults import BodyBroken, UnknownCoding

_PIECE_BYTES: Final = 262_144
"""Limit of the bytes decompressed at once."""

# 16 is added to the window for the frame of gzip.
_KNOWN: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Window sizes of zlib."""

_FOREIGN: Final = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz"})


class Unpacker:
    """Decompressor of one body, piece by piece."""

    __slots__ = ("_has_begun", "_is_full", "_packed", "_stream", "_window")

    def __init__(self, coding: str) -> None:
        self._window = _KNOWN[coding]
        self._stream = zlib.decompressobj(self._window)
        self._packed = b""
        self._has_begun = False
        self._is_full = False

    @property
    def has_more(self) -> bool:
        """True if there are bytes to decompress."""
        return self._is_full or bool(self._packed)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if data and not self._has_begun:
            self._has_begun = True
            if self._window == 15 and data[0] & 0x0F != 8:  # some send it without its frame
                self._window = -15
                self._stream = zlib.decompressobj(-15)
        self._packed = self._packed + data if self._packed else data

    def read(self) -> bytes:
        """Return decompressed bytes; ``b""`` if more input is needed.

        Raises:
            BodyBroken: The data are damaged.
        """
        stream = self._stream
        if stream.eof:
            self._is_full = False
            if self._window != 31 or not self._packed.startswith(b"\x1f"):
                self._packed = b""  # ignore bytes behind the end
                return b""
            stream = self._stream = zlib.decompressobj(31)  # gzip may come in several parts
        try:
            data = stream.decompress(self._packed, _PIECE_BYTES)
        except zlib.error as error:
            raise BodyBroken from error
        self._packed = stream.unused_data if stream.eof else stream.unconsumed_tail
        self._is_full = len(data) == _PIECE_BYTES
        return data

    def find_fault(self) -> BodyBroken | None:
        """Return the fault of a truncated body, at the end of the input."""
        return BodyBroken() if self._has_begun and not self._stream.eof else None


def choose_unpacker(coding: str) -> Unpacker | None:
    """Return the decompressor for a content coding; ``None`` for an uncompressed body.

    Raises:
        UnknownCoding: The coding was not requested.
    """
    name = coding.strip().lower()
    if name in _KNOWN:
        return Unpacker(name)
    # Other words, such as "identity", do not name a compression.
    if name in _FOREIGN:
        raise UnknownCoding(name)
    return None
