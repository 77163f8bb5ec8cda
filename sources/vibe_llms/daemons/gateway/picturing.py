"""Which bytes of a request are pictures, by where they stand in it, whatever its protocol.

How something begins does not make it a picture: words may begin like one and are words for
whoever reads them. So a body is followed from bracket to bracket, without a value being made of it.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import field

from vibe_llms.values import define

_BEGINNINGS: Final = (b"iVBORw0KGgo", b"/9j", b"R0lGOD", b"UklGR")
"""How a PNG, a JPEG, a GIF and a WebP begin in base 64."""
_PICTURE: Final = re.compile(
    rb"(?P<address>data:image\\?/[\w.+-]{1,40};base64,)?"
    rb"(?:iVBORw0KGgo|\\?/9j|R0lGOD|UklGR(?!.{7}QVZF))",  # sound begins as a WebP does
    re.DOTALL,
)
_RUN: Final = re.compile(rb"[A-Za-z0-9+/=_\\-]*+")
_TOKEN: Final = re.compile(rb'[^"\[\]{}]*+["\[\]{}]')
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+', re.DOTALL)
_COLON: Final = re.compile(rb"\s*+:")
_TOKENS: Final = 100_000
"""So many brackets and strings are followed; what stands behind them counts as words."""
_DEPTH: Final = 8
"""More keys than lead to any picture."""
_KEY_BYTES: Final = 40

_Place = tuple[bytes, ...]


def _list_places(*places: bytes) -> frozenset[_Place]:
    return frozenset(tuple(place.split(b".")) for place in places)


_ADDRESSES: Final = _list_places(
    b"messages.content.image_url",
    b"messages.content.image_url.url",
    b"messages.images.image_url.url",
    b"input.content.image_url",
    b"input.output.image_url",
    b"images.image_url",
    b"request.canisters.content.url",
)
"""Where a picture is a data URL."""
_DATA: Final = _list_places(
    b"messages.content.source.data",
    b"messages.content.content.source.data",
    b"messages.content.source.content.source.data",
    b"contents.parts.inlineData.data",
    b"contents.parts.functionResponse.parts.inlineData.data",
    b"systemInstruction.parts.inlineData.data",
    b"input.result",
    b"request.canisters.content.data",
)
"""Where it is bare, beside a field that says that it is a picture: else it may be a text."""
_PICTURES_ALONE: Final = _list_places(b"images", b"messages.images")
"""Where it is bare, and nothing else may stand there."""

_ALIKE: Final = {
    b"inline_data": b"inlineData",
    b"function_response": b"functionResponse",
    b"system_instruction": b"systemInstruction",
}
_KINDS: Final = (b"media_type", b"mimeType", b"mime_type")
_PICTURE_TYPES: Final = (b'"image"', b'"image_generation_call"')
_TYPES: Final = (*_PICTURE_TYPES, b'"base64"', b'"input_image"', b'"computer_screenshot"')


@define
class _Open:
    """An object or an array that is not closed yet.

    Attributes:
        place: The keys that lead to it.
        key: The one whose value comes next.
        sizes: Of what may be pictures in it, in bytes.
        is_shown: Whether something says that they are.
        is_other: Whether something says that they are not, or says what is not understood here.
    """

    place: _Place
    key: bytes | None = None
    sizes: list[int] = field(factory=list)
    is_shown: bool = False
    is_other: bool = False

    def lead(self) -> _Place:
        """Returns the keys that lead to the value that comes next."""
        if self.key is None or len(self.place) >= _DEPTH:
            return self.place
        return (*self.place, self.key)


def measure_pictures(body: bytes, least: int) -> list[int]:
    """Returns how many bytes each picture has in a body, of those that have more than ``least``.

    What is not certainly a picture is none.
    """
    if not any(beginning in body for beginning in _BEGINNINGS):
        return []
    sizes: list[int] = []
    opened, at = [_Open(())], 0
    for _ in range(_TOKENS):
        token = _TOKEN.match(body, at)
        if token is None:
            break
        at, held = token.end(), opened[-1]
        if body[at - 1] in b"[{":
            opened.append(_Open(held.lead()))
        elif body[at - 1] in b"]}":
            if len(opened) == 1:
                return []  # nobody answers that
            opened.pop()
            if held.is_shown and not held.is_other:
                sizes += held.sizes
        else:
            start, at = at - 1, _find_end(body, at - 1)
            if _COLON.match(body, at):
                _take_key(held, body, start, at)
            else:
                _take_text(held, body, start, at, least)
    return sizes


def _find_end(body: bytes, start: int) -> int:
    """Returns where a string ends, quickly where no quote is in it: pictures are long."""
    end = body.find(b'"', start + 1)
    if end >= 0 and body[end - 1 : end] != b"\\":
        return end + 1
    string = _STRING.match(body, start)
    return string.end() if string else len(body)


def _take_key(held: _Open, body: bytes, start: int, end: int) -> None:
    key = body[start + 1 : end - 1] if end - start <= _KEY_BYTES else b""
    held.key = _ALIKE.get(key, key)
    if body.find(b"\\", start, end) >= 0:  # it may be a key that counts, spelled so as not to
        held.is_other = True


def _take_text(held: _Open, body: bytes, start: int, end: int, least: int) -> None:
    if held.key in _KINDS:
        held.is_shown |= body.startswith(b'"image', start)
        held.is_other |= not body.startswith(b'"image', start)
    elif held.key == b"type":
        said = body[start : min(end, start + _KEY_BYTES)]
        held.is_shown |= said in _PICTURE_TYPES
        held.is_other |= said not in _TYPES
    elif end - start > least and (picture := _PICTURE.match(body, start + 1)):
        place = held.lead()
        is_address = picture["address"] is not None
        if place in _ADDRESSES if is_address else place in _DATA | _PICTURES_ALONE:
            begin = picture.end("address") if is_address else start + 1
            run = _RUN.match(body, begin, end)
            size = run.end() - begin if run else 0
            if size > least:
                held.sizes.append(size)
                held.is_shown |= is_address or place in _PICTURES_ALONE
