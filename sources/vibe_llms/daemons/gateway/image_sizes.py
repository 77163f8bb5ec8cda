"""Find the images in a request by their path, in any protocol.

Magic numbers alone are not enough: a text may begin like an image.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_BEGINNINGS: Final = (b"iVBORw0KGgo", b"/9j", b"R0lGOD", b"UklGR")
"""Beginnings of PNG, JPEG, GIF and WebP in base64."""
_PICTURE: Final = re.compile(
    r"(?P<address>data:image/[\w.+-]{1,40};base64,)?"
    r"(?P<data>(?:iVBORw0KGgo|/9j|R0lGOD|UklGR(?!.{7}QVZF))"  # WAV files begin like WebP
    r"[A-Za-z0-9+/=_-]*+)",
)
_COMMAS: Final = 200_000
"""Bodies with more commas are not searched, to save time; they count as text."""

_Path = tuple[str, ...]


def _list_paths(*paths: str) -> frozenset[_Path]:
    return frozenset(tuple(path.split(".")) for path in paths)


_ADDRESSES: Final = _list_paths(
    "messages.content.image_url",
    "messages.content.image_url.url",
    "messages.images.image_url.url",
    "input.content.image_url",
    "input.output.image_url",
    "images.image_url",
    "request.canisters.content.url",
)
"""Fields with an image as a data URL."""
_DATA: Final = _list_paths(
    "messages.content.source.data",
    "messages.content.content.source.data",
    "messages.content.source.content.source.data",
    "contents.parts.inlineData.data",
    "contents.parts.functionResponse.parts.inlineData.data",
    "systemInstruction.parts.inlineData.data",
    "input.result",
    "request.canisters.content.data",
)
"""Fields with bare base64, if a neighbouring field says that it is an image."""
_PICTURES_ALONE: Final = _list_paths("images", "messages.images")
"""Fields that contain only images, as bare base64."""
_WAYS: Final = frozenset(
    path[:length]
    for path in _ADDRESSES | _DATA | _PICTURES_ALONE
    for length in range(len(path) + 1)
)
"""Fields on the path to an image."""

_ALIKE: Final = {
    "inline_data": "inlineData",
    "function_response": "functionResponse",
    "system_instruction": "systemInstruction",
}
_KINDS: Final = ("media_type", "mimeType", "mime_type")
_PICTURE_TYPES: Final = ("image", "image_generation_call")
_TYPES: Final = (*_PICTURE_TYPES, "base64", "input_image", "computer_screenshot")


def measure_pictures(body: bytes, least: int) -> list[int]:
    """Return the sizes of the images in a body that are larger than ``least`` bytes.

    Uncertain cases are not images.
    """
    if not any(beginning in body for beginning in _BEGINNINGS) or body.count(b",") > _COMMAS:
        return []
    try:
        found = list(_walk(json.loads(body, object_pairs_hook=_read_object), ()))
    except (ValueError, RecursionError):
        return []  # the request will be refused
    return [size for size in found if size > least]


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | None:
    """Build an object; drop repeated names, because either value may count."""
    fields = {_ALIKE.get(name, name): value for name, value in pairs}
    return fields if len(fields) == len(pairs) else None


def _walk(value: Any, path: _Path, *, is_shown: bool = False) -> Iterator[int]:
    """Yield the sizes of images.

    Args:
        path: Keys on the path to the value.
        is_shown: Whether a neighbouring field says that it is an image.
    """
    if path not in _WAYS:
        return
    if isinstance(value, list):
        for each in value:
            yield from _walk(each, path)
    elif isinstance(value, dict):
        kinds = [value[name] for name in _KINDS if name in value]
        is_other = not all(isinstance(kind, str) and kind.startswith("image") for kind in kinds)
        is_other |= value.get("type", _TYPES[0]) not in _TYPES
        is_shown = bool(kinds) or value.get("type") in _PICTURE_TYPES
        for name, each in value.items():
            if not (is_other and isinstance(each, str)):
                yield from _walk(each, (*path, name), is_shown=is_shown)
    elif isinstance(value, str) and (picture := _PICTURE.match(value)):
        if picture["address"] is not None:
            is_picture = path in _ADDRESSES
        else:
            is_picture = path in _PICTURES_ALONE or (is_shown and path in _DATA)
        if is_picture:
            yield len(picture["data"])
