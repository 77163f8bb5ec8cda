"""Bodies of responses: reading within limits, decompression, and decoding."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import AsyncIterator
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.refusals import Refusal

_WINDOWS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 47}
_CODECS: Final = re.compile(
    r"ascii|utf-(8|8-sig|16|16-le|16-be|32|32-le|32-be)|iso8859-\d+|cp\d+|koi8-[rut]|mac-[a-z]+"
    r"|shift_jis.*|euc_.*|iso2022_.*|gb\w+|hz|big5.*|johab|latin-1|tis-620|kz1048|ptcp154"
)
"""Text codecs whose time is linear in the length of the text."""

_META_CHARSET: Final = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE
)
# UTF-32 before UTF-16, as the byte order mark of UTF-32 starts with the mark of UTF-16.
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@frozen
class PageBody:
    """Body of a page, as far as it was read.

    Attributes:
        data: The decompressed bytes.
        is_cut: True if the body was longer than the limit.
    """

    data: bytes
    is_cut: bool


async def read_body(pieces: AsyncIterator[bytes], encoding: str, limit: int) -> PageBody:
    """Read a body up to the limit, which applies to the compressed and the decompressed size.

    Raises:
        Refusal: The compression is unknown, or the data are damaged.
    """
    encoding = encoding.strip().lower() or "identity"
    if encoding != "identity" and encoding not in _WINDOWS:
        raise Refusal(f"The page is compressed as {encoding[:40]!r}, which is not supported.")
    unpacker = zlib.decompressobj(_WINDOWS[encoding]) if encoding in _WINDOWS else None
    data, received = bytearray(), 0
    async for piece in pieces:
        received += len(piece)
        try:
            # Limited during decompression, which may multiply the size by a thousand. One byte
            # beyond the limit shows that there is more.
            data += unpacker.decompress(piece, limit + 1 - len(data)) if unpacker else piece
        except zlib.error as error:
            raise Refusal("The page is damaged: it cannot be decompressed.") from error
        if received > limit or len(data) > limit:
            return PageBody(bytes(data[:limit]), is_cut=True)
    return PageBody(bytes(data), is_cut=False)


def decode(data: bytes, charset: str) -> str:
    """Decode bytes; invalid ones are shown as \ufffd.

    Args:
        charset: The charset in the header of the response; a byte order mark overrides it.
    """
    # A byte order mark is more reliable than the header, which servers set for all their pages.
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data.decode(name, "replace")
    # Only near the beginning, where it has to be, so that the time is limited.
    meta = _META_CHARSET.search(data[:4_096])
    for name in (charset, meta[1].decode("ascii") if meta else ""):
        if codec := _find_codec(name):
            return data.decode(codec, "replace")
    return data.decode("utf-8", "replace")


def _find_codec(name: str) -> str:
    """Return the codec of a charset, if it is a safe text codec."""
    try:
        codec = codecs.lookup(name.strip(" \"'")).name if name else ""
    except (LookupError, ValueError):
        return ""
    if codec in ("iso8859-1", "ascii"):
        return "cp1252"  # as in browsers, because pages with this charset mean it
    return codec if _CODECS.fullmatch(codec) else ""
