"""Requests for images of clients with OpenAI's form, and the answers for them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from vibe_llms.dialects.calls import ClientFormat, Piece, PieceWriter
from vibe_llms.dialects.illustrations import openai
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.payloads import encode_payload, read_url
from vibe_llms.dialects.speeches.openai import write_event
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.forms import FormFile
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.contents import ImageContent
from vibe_llms.messages.illustrations import Illustration, IllustrationRequest
from vibe_llms.messages.losses import Translation

PROTOCOL: Final = openai.PROTOCOL
_READ: Final = frozenset(
    {
        *("model", "prompt", "n", "size", "quality", "background", "output_format"),
        *("image", "images", "mask", "response_format", "stream"),
    }
)
_ROUTINE: Final = frozenset({"user", "safety_identifier", "moderation"})
"""Bookkeeping, and fields about the vendor's filter."""


def normalize(native: Mapping[str, Any]) -> Translation[IllustrationRequest]:
    """Read a client's request for new images. Raises RequestError."""
    return _normalize(native, ())


def normalize_edit(native: Mapping[str, Any]) -> Translation[IllustrationRequest]:
    """Read a client's request for edits. Raises RequestError."""
    value = native.get("image", native.get("images"))
    values = value if isinstance(value, list) else [value]
    images = [_read_image(each, "image") for each in values]
    return _normalize(native, images)


def _normalize(native: Mapping[str, Any], images: Any) -> Translation[IllustrationRequest]:
    ledger = Ledger(protocol=PROTOCOL)
    ledger.drop_unknown(native, _READ, routine=_ROUTINE)
    if native.get("response_format") == "url":
        ledger.coerce("response_format", "an image without an address is sent as base64")
    mask = native.get("mask")
    size = _read_text(native, "size")
    request = IllustrationRequest(
        prompt=_read_text(native, "prompt") or "",
        images=images,
        mask=None if mask is None else _read_image(mask, "mask"),
        count=_read_count(native.get("n")),
        size=None if size == "auto" else size,
        quality=_read_choice(native, "quality"),
        background=_read_choice(native, "background"),
        file_format=_read_text(native, "output_format"),
    )
    return Translation(request, ledger.losses)


def _read_text(native: Mapping[str, Any], name: str) -> str | None:
    value = native.get(name)
    if value is None or isinstance(value, str):
        return value
    raise RequestError(path=name, detail="Expected a text.", remedy="Send a string.")


def _read_choice(native: Mapping[str, Any], name: str) -> str | None:
    value = _read_text(native, name)
    return None if value == "auto" else value


def _read_count(value: Any) -> int:
    return 1 if value is None else value


def _read_image(value: Any, path: str) -> ImageContent:
    """Return an image: an uploaded file, or an object with a URL."""
    if isinstance(value, FormFile):
        is_known = value.media_type.startswith("image/")
        return ImageContent(mime_type=value.media_type if is_known else "", data=value.data)
    if isinstance(value, Mapping):
        value = value.get("image_url", value.get("url"))
    if isinstance(value, str) and value:
        return ImageContent(**read_url(value, "image/*"))
    raise RequestError(path=path, detail="Expected an image.", remedy="Upload a file.")


def nativize_result(
    illustration: Illustration, native: Mapping[str, Any], model: str
) -> JsonObject:
    """Write images for a client."""
    body: dict[str, Any] = {
        "created": int(time.time()),
        "data": [_write_image(image) for image in illustration],
    }
    if usage := _write_usage(illustration.usage):
        body["usage"] = usage
    return body


def _write_image(image: ImageContent) -> JsonObject:
    fields: dict[str, Any] = {}
    if image.data is None:
        fields["url"] = image.url
    else:
        fields["b64_json"] = encode_payload(image, "data")
    native = image.native
    if native is not None and native.protocol == PROTOCOL:
        fields |= msgspec.json.decode(native.data, type=dict[str, Any])
    return fields


def _write_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    taken, made = usage.total_input_tokens or 0, usage.total_output_tokens or 0
    # Other vendors do not tell how many of them describe images.
    details = {"text_tokens": taken, "image_tokens": 0}
    return {
        "input_tokens": taken,
        "input_tokens_details": details,
        "output_tokens": made,
        "total_tokens": taken + made,
    }


def produce_writer(native: Mapping[str, Any], *, kind: str) -> PieceWriter | None:
    """Make the writer of a stream, if the client wants one.

    Args:
        kind: Beginning of the events' names: ``image_generation`` or ``image_edit``.
    """
    return _EventWriter(native, kind) if native.get("stream") in (True, "true") else None


class _EventWriter:
    """Writes the event of each image; others than OpenAI do not send partial images."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, native: Mapping[str, Any], kind: str) -> None:
        self._native, self._kind = native, kind

    def feed(self, piece: Piece) -> bytes:
        """Return nothing: images arrive in one piece."""
        return b""

    def finish(self, result: Illustration) -> bytes:
        """Return the events of all images."""
        return b"".join(self._iterate(result))

    def _iterate(self, result: Illustration) -> Iterator[bytes]:
        for image in result:
            event = {
                "type": f"{self._kind}.completed",
                **_write_image(image),
                "created_at": int(time.time()),
                "background": self._native.get("background") or "auto",
                "output_format": image.mime_type.partition("/")[2],
                "quality": self._native.get("quality") or "auto",
                "size": self._native.get("size") or "auto",
                "usage": _write_usage(result.usage) or _write_usage(Usage()),
            }
            yield write_event(event)


CLIENT_FORMAT: Final = ClientFormat[IllustrationRequest, Illustration](
    protocol=PROTOCOL,
    path="/images/generations",
    read=normalize,
    write=nativize_result,
    produce_writer=partial(produce_writer, kind="image_generation"),
)

EDIT_FORMAT: Final = ClientFormat[IllustrationRequest, Illustration](
    protocol=PROTOCOL,
    path="/images/edits",
    read=normalize_edit,
    write=nativize_result,
    produce_writer=partial(produce_writer, kind="image_edit"),
)
