"""What a request asks for, in no vendor's words: all that the behaviour decides by."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Mapping

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject


@frozen(kw_only=True)
class OfferedTool:
    """A tool that the client offers."""

    name: str
    schema: JsonObject = attrs.field(factory=dict, hash=False)
    custom: bool = False


@frozen(kw_only=True)
class ToolResult:
    """A tool's result that the request brings."""

    name: str
    text: str


@frozen(kw_only=True)
class Attachment:
    """Media that the last message holds; `data` is None where only an address came."""

    media_type: str
    data: bytes | None = None

    def describe(self) -> str:
        """The media type, and the size in pixels or bytes."""
        if self.data is None:
            return f"{self.media_type} at an address"
        size = measure_picture(self.data)
        if size is not None:
            return f"{self.media_type} of {size[0]} x {size[1]} pixels"
        return f"{self.media_type} of {len(self.data)} bytes"


@frozen(kw_only=True)
class Ask:
    """One request.

    Attributes:
        model: The model that is asked for.
        text: What the user said last.
        attachments: The media of that message.
        offers: The client's tools.
        outcomes: Results that nobody has spoken about yet.
        demand: The name of the tool that must be called, ``*`` for any, ``-`` for none.
        parallel: Whether several tools may be called at once.
        schema: The JSON schema that the answer must fit; ``{}`` for any JSON.
        reasons: Whether reasoning is asked for.
        searches: Whether the vendor may search the web.
        draws: Whether pictures may be answered.
        speaks: Whether audio may be answered.
        limit: How many tokens the answer may have.
        stops: Texts at which the answer ends.
        received: The estimated tokens of the prompt.
        prefix: The whole conversation, for signatures that are bound to it.
        streams: Whether the answer is to be streamed.
    """

    model: str
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    offers: tuple[OfferedTool, ...] = ()
    outcomes: tuple[ToolResult, ...] = ()
    demand: str | None = None
    parallel: bool = True
    schema: JsonObject | None = attrs.field(default=None, hash=False)
    reasons: bool = False
    searches: bool = False
    draws: bool = False
    speaks: bool = False
    limit: int | None = None
    stops: tuple[str, ...] = ()
    received: int = 0
    prefix: str = ""
    streams: bool = False


def count_tokens(text: str) -> int:
    """Estimates tokens: four bytes each, the same way every time."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def count_request_tokens(*values: object) -> int:
    """Estimates the tokens of plain data; media do not count by the letters of their base64."""
    return count_tokens("".join(_collect_texts(value) for value in values)) + 3


def _collect_texts(value: object) -> str:
    if isinstance(value, str):
        # What is long and has no spaces is base64, and no text.
        return value if len(value) < 2000 or " " in value[:2000] else value[:64]
    if isinstance(value, Mapping):
        return "".join(_collect_texts(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return "".join(_collect_texts(item) for item in value)
    return ""


def read_base64(text: object) -> bytes | None:
    """The bytes of a base64 text, or None where it is none."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def read_data_url(url: str) -> Attachment:
    """Media from a ``data:`` URL, or from an address."""
    if not url.startswith("data:"):
        return Attachment(media_type="image/*")
    head, _, data = url[5:].partition(",")
    return Attachment(media_type=head.split(";")[0], data=read_base64(data) or b"")


def recognize_media(data: bytes) -> str:
    """The media type of a picture by its first bytes."""
    for start, media_type in (
        (b"\x89PNG", "image/png"),
        (b"\xff\xd8", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"RIFF", "image/webp"),
    ):
        if data.startswith(start):
            return media_type
    return "application/octet-stream"


def measure_picture(data: bytes) -> tuple[int, int] | None:
    """The width and height in pixels of a PNG or a GIF; None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return int(width), int(height)
    if data.startswith(b"GIF8") and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
        return int(width), int(height)
    return None


def write_text(value: object) -> str:
    """A tool's result as text: texts as they are, the texts of parts joined, the rest as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [
            item["text"] if isinstance(item.get("text"), str) else f"<{item.get('type')}>"
            for item in value
            if isinstance(item, Mapping)
        ]
        return "".join(texts)
    return json.dumps(value, ensure_ascii=False)
