"""Prompts: the vendor-independent content of a request, on which the model's answer depends."""

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
    """A tool that the client offers; ``custom`` if it takes free text instead of arguments."""

    name: str
    schema: JsonObject = attrs.field(factory=dict, hash=False)
    custom: bool = False


@frozen(kw_only=True)
class ToolResult:
    """A tool's result in the request."""

    name: str
    text: str


@frozen(kw_only=True)
class Attachment:
    """Media of the last message; `data` is None if only an address was sent."""

    media_type: str
    data: bytes | None = None

    def describe(self) -> str:
        """Return the media type, and the size in pixels or bytes."""
        if self.data is None:
            return f"{self.media_type} at an address"
        size = measure_picture(self.data)
        if size is not None:
            return f"{self.media_type} of {size[0]} x {size[1]} pixels"
        return f"{self.media_type} of {len(self.data)} bytes"


@frozen(kw_only=True)
class SimulatedPrompt:
    """Content of one request, without the vendor's format.

    Attributes:
        model: The requested model.
        text: The user's last text.
        attachments: The media of that message.
        tools: The client's tools.
        tool_results: The results at the end of the conversation, which the model has not seen yet.
        tool_choice: The name of the tool that must be called, ``*`` for any, ``-`` for none.
        allows_parallel_calls: True if several tools may be called together.
        schema: The JSON schema that the answer must fit; ``{}`` for any JSON.
        wants_reasoning: True if reasoning is requested.
        allows_search: True if the vendor may search the web.
        allows_code: True if the vendor may execute code.
        allows_pictures: True if pictures are permitted in the answer.
        allows_audio: True if audio is permitted in the answer.
        max_tokens: Maximum tokens of the answer.
        stop_texts: Texts at which the answer ends.
        tokens: The estimated tokens of the prompt.
        prefix: The whole conversation as a text, for signatures that cover it.
        wants_stream: True if the answer is to be streamed.
        cached: Tokens read from a prompt cache.
        written: Tokens written to a prompt cache.
        written_long: Tokens written for an hour.
    """

    model: str
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    tools: tuple[OfferedTool, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    tool_choice: str | None = None
    allows_parallel_calls: bool = True
    schema: JsonObject | None = attrs.field(default=None, hash=False)
    wants_reasoning: bool = False
    allows_search: bool = False
    allows_code: bool = False
    allows_pictures: bool = False
    allows_audio: bool = False
    max_tokens: int | None = None
    stop_texts: tuple[str, ...] = ()
    tokens: int = 0
    prefix: str = ""
    wants_stream: bool = False
    cached: int = 0
    written: int = 0
    written_long: int = 0


def count_tokens(text: str) -> int:
    """Estimate tokens: four bytes each, deterministic."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def count_request_tokens(*values: object) -> int:
    """Estimate the tokens of plain data; the base64 text of media does not count."""
    return count_tokens("".join(_collect_texts(value) for value in values)) + 3


def _collect_texts(value: object) -> str:
    if isinstance(value, str):
        is_base64 = len(value) >= 2000 and " " not in value[:2000]
        return value[:64] if is_base64 else value
    if isinstance(value, Mapping):
        return "".join(_collect_texts(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return "".join(_collect_texts(item) for item in value)
    return ""


def read_base64(text: object) -> bytes | None:
    """Return the bytes of a base64 text, or None if it is invalid."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def read_data_url(url: str) -> Attachment:
    """Return media from a ``data:`` URL, or from an address."""
    if not url.startswith("data:"):
        return Attachment(media_type="image/*")
    head, _, data = url[5:].partition(",")
    return Attachment(media_type=head.split(";")[0], data=read_base64(data) or b"")


def recognize_media(data: bytes) -> str:
    """Return the media type of a picture by its first bytes."""
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
    """Return the width and height in pixels of a PNG or a GIF; None for other formats."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return int(width), int(height)
    if data.startswith(b"GIF8") and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
        return int(width), int(height)
    return None


def write_text(value: object) -> str:
    """Return a tool's result as text.

    A text is returned unchanged, the texts of a list of parts are joined, and other values are
    written as JSON.
    """
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
