"""Which parts of a request are pictures, by where they stand in it, whatever its protocol.

How something begins does not make it a picture: words may begin like one and are words for
whoever reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_BEGINNINGS: Final = (b"iVBORw0KGgo", b"/9j", b"R0lGOD", b"UklGR")
"""How a PNG, a JPEG, a GIF and a WebP begin in base 64."""
_PICTURE: Final = re.compile(
    r"(?P<address>data:image/[\w.+-]{1,40};base64,)?"
    r"(?P<data>(?:iVBORw0KGgo|/9j|R0lGOD|UklGR(?!.{7}QVZF))"  # sound begins as a WebP does
    r"[A-Za-z0-9+/=_-]*+)",
)
_COMMAS: Final = 200_000
"""A body with more of them is not read here, lest that takes long: all of it counts as words."""

_Place = tuple[str, ...]


def _list_places(*places: str) -> frozenset[_Place]:
    return frozenset(tuple(place.split(".")) for place in places)


_ADDRESSES: Final = _list_places(
    "messages.content.image_url",
    "messages.content.image_url.url",
    "messages.images.image_url.url",
    "input.content.image_url",
    "input.output.image_url",
    "images.image_url",
    "request.canisters.content.url",
)
"""Where a picture is a data URL."""
_DATA: Final = _list_places(
    "messages.content.source.data",
    "messages.content.content.source.data",
    "messages.content.source.content.source.data",
    "contents.parts.inlineData.data",
    "contents.parts.functionResponse.parts.inlineData.data",
    "systemInstruction.parts.inlineData.data",
    "input.result",
    "request.canisters.content.data",
)
"""Where it is bare, beside a field that says that it is a picture: else it may be a text."""
_PICTURES_ALONE: Final = _list_places("images", "messages.images")
"""Where it is bare, and nothing else may stand there."""
_WAYS: Final = frozenset(
    place[:length]
    for place in _ADDRESSES | _DATA | _PICTURES_ALONE
    for length in range(len(place) + 1)
)
"""What leads to a picture, and where one is."""

_ALIKE: Final = {
    "inline_data": "inlineData",
    "function_response": "functionResponse",
    "system_instruction": "systemInstruction",
}
_KINDS: Final = ("media_type", "mimeType", "mime_type")
_PICTURE_TYPES: Final = ("image", "image_generation_call")
_TYPES: Final = (*_PICTURE_TYPES, "base64", "input_image", "computer_screenshot")


def measure_pictures(body: bytes, least: int) -> list[int]:
    """Returns how many bytes each picture has in a body, of those that have more than ``least``.

    What is not certainly a picture is none.
    """
    if not any(beginning in body for beginning in _BEGINNINGS) or body.count(b",") > _COMMAS:
        return []
    try:
        found = list(_walk(json.loads(body, object_pairs_hook=_read_object), ()))
    except (ValueError, RecursionError):
        return []  # nobody answers that
    return [size for size in found if size > least]


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | None:
    """Makes an object of its fields; of two with one name either may count, so it is left out."""
    fields = {_ALIKE.get(name, name): value for name, value in pairs}
    return fields if len(fields) == len(pairs) else None


def _walk(value: Any, place: _Place, *, is_shown: bool = False) -> Iterator[int]:
    """Yields the sizes of pictures.

    Args:
        place: The keys that lead to the value.
        is_shown: Whether something beside it says that it is a picture.
    """
    if place not in _WAYS:
        return
    if isinstance(value, list):
        for each in value:
            yield from _walk(each, place)
    elif isinstance(value, dict):
        kinds = [value[name] for name in _KINDS if name in value]
        is_other = not all(isinstance(kind, str) and kind.startswith("image") for kind in kinds)
        is_other |= value.get("type", _TYPES[0]) not in _TYPES
        is_shown = bool(kinds) or value.get("type") in _PICTURE_TYPES
        for name, each in value.items():
            if not (is_other and isinstance(each, str)):
                yield from _walk(each, (*place, name), is_shown=is_shown)
    elif isinstance(value, str) and (picture := _PICTURE.match(value)):
        if picture["address"] is not None:
            is_picture = place in _ADDRESSES
        else:
            is_picture = place in _PICTURES_ALONE or (is_shown and place in _DATA)
        if is_picture:
            yield len(picture["data"])
