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
        form = _read_format(fields.get("format"))
        rest = without(fields, "format")
    else:
        inner = fields.get("custom")
        inner = inner if isinstance(inner, Mapping) else {}
        form = _read_chat_format(inner.get("format"))
        inner = without(inner, "format")
        rest = without(fields, "custom") | ({"custom": inner} if inner else {})
    return (None, native) if form is None else (form, keep_native(native.protocol, rest))


def write_chat_format(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return a format as Chat Completions writes it."""
    if form["type"] != "grammar":
        return dict(form)
    return {"type": "grammar", "grammar": without(form, "type")}


def _read_format(form: Any) -> JsonObject | None:
    """Return a known format unchanged; ``None`` for any other."""
    match form:
        case {"type": "text"}:
            return {"type": "text"}
        case {"type": "grammar", "syntax": str(), "definition": str(), **more} if not more:
            return dict(form)
    return None


def _read_chat_format(form: Any) -> JsonObject | None:
    match form:
        case {"type": "grammar", "grammar": Mapping() as grammar, **more} if not more:
            return _read_format({"type": "grammar", **grammar})
    return _read_format(form)
