"""Writers of deltas: the fields of a message that receive the pieces of a streamed content.

The native data of a content, if its vendor uses this protocol, record where the vendor put it: the
field of reasoning, the detail, the part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from vibe_llms.dialects.chat_completions.tables import DETAIL_FIELDS, REASONING_DETAILS
from vibe_llms.dialects.extras import MESSAGE, merge, without
from vibe_llms.events.stream import ContentStartedEvent

DeltaWriter: TypeAlias = Callable[[str], dict[str, Any]]
"""Function that makes the delta of a piece of text."""

REASONING: Final = "reasoning_content"
"""Field for reasoning of other protocols."""


def find_delta_writer(
    start: ContentStartedEvent, channel: str, extras: Mapping[str, Any], position: int
) -> DeltaWriter | None:
    """Return the function that writes a content's pieces; ``None`` for pieces that are not sent.

    Args:
        extras: The content's native data, as known at its beginning.
        position: For an invocation, its index among the calls of the message.
    """
    match start.kind:
        case "text" if channel == "text":
            return partial(_write_text_part, extras) if extras else _write_text
        case "refusal" if channel == "text":
            return _write_refusal
        case "reasoning":
            return _find_reasoning_writer(channel, extras)
        case "invocation" if channel == "arguments":
            if "function_call" in extras:
                return _write_legacy_arguments
            is_custom = start.form == "text"
            return partial(_write_custom_input if is_custom else _write_arguments, position)
    return None


def begin_call(
    start: ContentStartedEvent, extras: Mapping[str, Any], position: int
) -> dict[str, Any]:
    """Return the delta with which an invocation begins."""
    if "function_call" in extras:
        function = merge({"name": start.name, "arguments": ""}, extras["function_call"])
        return {"function_call": function}
    call: dict[str, Any] = {"index": position, "id": start.invocation_id, "type": "function"}
    if start.form == "text":
        call |= {"type": "custom", "custom": {"name": start.name, "input": ""}}
    else:
        call["function"] = {"name": start.name, "arguments": ""}
    return {"tool_calls": [merge(call, without(extras, MESSAGE))]}


def is_message_text(write_delta: DeltaWriter | None) -> bool:
    """Return whether pieces are text of the message itself."""
    return write_delta is _write_text


def is_foreign_reasoning(write_delta: DeltaWriter | None) -> bool:
    """Return whether pieces are reasoning of another protocol."""
    return write_delta is _write_reasoning


def _write_text(text: str) -> dict[str, Any]:
    return {"content": text}


def _write_text_part(extras: Mapping[str, Any], text: str) -> dict[str, Any]:
    return {"content": [merge({"type": "text", "text": text}, extras)]}


def _write_refusal(text: str) -> dict[str, Any]:
    return {"refusal": text}


def _write_arguments(position: int, text: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": position, "function": {"arguments": text}}]}


def _write_custom_input(position: int, text: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": position, "custom": {"input": text}}]}


def _write_legacy_arguments(text: str) -> dict[str, Any]:
    return {"function_call": {"arguments": text}}


def _find_reasoning_writer(channel: str, extras: Mapping[str, Any]) -> DeltaWriter | None:
    if "part" in extras:
        other_fields = without(extras["part"], "thinking")
        return partial(_write_reasoning_part, other_fields) if channel == "text" else None
    if "detail" in extras:
        detail = extras["detail"]
        text_fields = DETAIL_FIELDS.get(str(detail.get("type")), ())
        fields = {detail_channel: name for name, detail_channel in text_fields}
        if channel not in fields:
            return None
        names = extras.get("fields", ()) if channel != "signature" else ()
        return partial(_write_reasoning_detail, detail, fields[channel], tuple(names))
    if "fields" in extras:
        return (
            partial(_write_reasoning_fields, tuple(extras["fields"])) if channel == "text" else None
        )
    return _write_reasoning if channel in ("text", "summary") else None


def _write_reasoning(text: str) -> dict[str, Any]:
    return {REASONING: text}


def _write_reasoning_fields(names: tuple[str, ...], text: str) -> dict[str, Any]:
    return dict.fromkeys(names, text)


def _write_reasoning_detail(
    detail: Mapping[str, Any], field: str, names: tuple[str, ...], text: str
) -> dict[str, Any]:
    return {**dict.fromkeys(names, text), REASONING_DETAILS: [{**detail, field: text}]}


def _write_reasoning_part(other_fields: Mapping[str, Any], text: str) -> dict[str, Any]:
    part = {"type": "thinking", "thinking": [{"type": "text", "text": text}], **other_fields}
    return {"content": [part]}
