"""Formats of the text of custom tools, such as a grammar, in the two protocols that have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import keep_native, read_native, without
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.contents import Native

_CHAT: Final = "chat_completions"
_RESPONSES: Final = "responses"


def split_format(native: Native | None, path: str) -> tuple[JsonObject | None, Native | None]:
    """Split native data of a custom tool: return its format, as in Responses, and the other data.

    Args:
        path: Path of the tool.

    Raises:
        RequestError: The native data are not a JSON object.
    """
    if native is None or native.protocol not in (_CHAT, _RESPONSES):
        return None, native
    fields = read_native(native, path)
    if native.protocol == _RESPONSES:
        text_format = _read_format(fields.get("format"))
        other_fields = without(fields, "format")
    else:
        inner = fields.get("custom")
        inner = inner if isinstance(inner, Mapping) else {}
        text_format = _read_chat_format(inner.get("format"))
        inner = without(inner, "format")
        other_fields = without(fields, "custom") | ({"custom": inner} if inner else {})
    return (
        (None, native)
        if text_format is None
        else (text_format, keep_native(native.protocol, other_fields))
    )


def write_chat_format(text_format: Mapping[str, Any]) -> dict[str, Any]:
    """Return a format as Chat Completions writes it."""
    if text_format["type"] != "grammar":
        return dict(text_format)
    return {"type": "grammar", "grammar": without(text_format, "type")}


def _read_format(text_format: Any) -> JsonObject | None:
    """Return a known format unchanged; ``None`` for any other."""
    match text_format:
        case {"type": "text"}:
            return {"type": "text"}
        case {"type": "grammar", "syntax": str(), "definition": str(), **more} if not more:
            return dict(text_format)
    return None


def _read_chat_format(text_format: Any) -> JsonObject | None:
    match text_format:
        case {"type": "grammar", "grammar": Mapping() as grammar, **more} if not more:
            return _read_format({"type": "grammar", **grammar})
    return _read_format(text_format)
