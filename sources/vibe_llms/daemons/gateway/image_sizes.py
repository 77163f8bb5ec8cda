"""Find the images in a request by their path, in any protocol.

Magic numbers alone are not enough: a text may begin like an image.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_SIGNATURES: Final = (b"iVBORw0KGgo", b"/9j", b"R0lGOD", b"UklGR")
"""Magic numbers of PNG, JPEG, GIF and WebP in base64."""
_IMAGE: Final = re.compile(
    r"(?P<scheme>data:image/[\w.+-]{1,40};base64,)?"
    r"(?P<data>(?:iVBORw0KGgo|/9j|R0lGOD|UklGR(?!.{7}QVZF))"  # WAV files begin like WebP
    r"[A-Za-z0-9+/=_-]*+)",
)
_MAX_COMMAS: Final = 200_000
"""Bodies with more commas are not searched, to save time; they count as text."""

_Path = tuple[str, ...]


def _list_paths(*paths: str) -> frozenset[_Path]:
    return frozenset(tuple(path.split(".")) for path in paths)


_DATA_URLS: Final = _list_paths(
    "messages.content.image_url",
    "messages.content.image_url.url",
    "messages.images.image_url.url",
    "input.content.image_url",
    "input.output.image_url",
    "images.image_url",
    "request.canisters.content.url",
)
"""Fields with an image as a data URL."""
_BASE64: Final = _list_paths(
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
_IMAGE_LISTS: Final = _list_paths("images", "messages.images")
"""Fields that contain only images, as bare base64."""
_PREFIXES: Final = frozenset(
    path[:length] for path in _DATA_URLS | _BASE64 | _IMAGE_LISTS for length in range(len(path) + 1)
)
"""Beginnings of all these paths: other fields are not searched."""

_ALIASES: Final = {
    "inline_data": "inlineData",
    "function_response": "functionResponse",
    "system_instruction": "systemInstruction",
}
_TYPE_FIELDS: Final = ("media_type", "mimeType", "mime_type")
_IMAGE_TYPES: Final = ("image", "image_generation_call")
"""Values of ``type`` that say that a neighbouring field is an image."""
_POSSIBLE_TYPES: Final = (*_IMAGE_TYPES, "base64", "input_image", "computer_screenshot")
"""Values of ``type`` beside an image. Objects of any other type contain none."""


def measure_images(body: bytes, min_bytes: int) -> list[int]:
    """Return the sizes of the images in a body that are larger than ``min_bytes``.

    Uncertain cases are not images.
    """
    if not any(signature in body for signature in _SIGNATURES):
        return []
    if body.count(b",") > _MAX_COMMAS:
        return []
    try:
        sizes = list(_walk(json.loads(body, object_pairs_hook=_read_object), ()))
    except (ValueError, RecursionError):
        return []  # the request will be refused
    return [size for size in sizes if size > min_bytes]


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | None:
    """Return an object; ``None`` if a name is repeated, because either value may count."""
    fields = {_ALIASES.get(name, name): value for name, value in pairs}
    return fields if len(fields) == len(pairs) else None


def _walk(value: Any, path: _Path, *, is_declared: bool = False) -> Iterator[int]:
    """Yield the sizes of images.

    Args:
        path: Keys on the path to the value.
        is_declared: Whether a neighbouring field says that it is an image.
    """
    if path not in _PREFIXES:
        return
    if isinstance(value, list):
        for each in value:
            yield from _walk(each, path)
    elif isinstance(value, dict):
        media_types = [value[name] for name in _TYPE_FIELDS if name in value]
        kind = value.get("type", _POSSIBLE_TYPES[0])
        may_be_image = kind in _POSSIBLE_TYPES and all(
            isinstance(media_type, str) and media_type.startswith("image")
            for media_type in media_types
        )
        is_declared = bool(media_types) or value.get("type") in _IMAGE_TYPES
        for name, each in value.items():
            if may_be_image or not isinstance(each, str):
                yield from _walk(each, (*path, name), is_declared=is_declared)
    elif isinstance(value, str):
        match = _IMAGE.match(value)
        if match is None:
            return
        if match["scheme"] is not None:
            is_image = path in _DATA_URLS
        else:
            is_image = path in _IMAGE_LISTS or (is_declared and path in _BASE64)
        if is_image:
            yield len(match["data"])
