"""Forms of deltas: where the pieces of a streamed content are put.

The native data of a content, if its vendor uses this protocol, record where the vendor put it: the
field of reasoning, the detail, the part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from vibe_llms.dialects.chat_completions.tables import DETAILS, GROWING
from vibe_llms.dialects.extras import MESSAGE, merge, without
from vibe_llms.events.stream import ContentStartedEvent

Form: TypeAlias = Callable[[str], dict[str, Any]]
"""Makes the delta of a piece."""

REASONING: Final = "reasoning_content"
"""Field for reasoning of other protocols."""


def find_form(
    start: ContentStartedEvent, channel: str, kept: Mapping[str, Any], place: int
) -> Form | None:
    """Return the form of a content's pieces; ``None`` if it has none.

    Args:
        kept: The content's native data, as known at its beginning.
        place: For an invocation, its index among the calls of the message.
    """
    match start.kind:
        case "text" if channel == "text":
            return partial(_say_part, kept) if kept else _say
        case "refusal" if channel == "text":
            return _refuse
        case "reasoning":
            return _find_thought(channel, kept)
        case "invocation" if channel == "arguments":
            if "function_call" in kept:
                return _argue_formerly
            return partial(_ask if start.form == "text" else _argue, place)
    return None


def begin_call(start: ContentStartedEvent, kept: Mapping[str, Any], place: int) -> dict[str, Any]:
    """Return the delta with which an invocation begins."""
    if "function_call" in kept:
        function = merge({"name": start.name, "arguments": ""}, kept["function_call"])
        return {"function_call": function}
    call: dict[str, Any] = {"index": place, "id": start.invocation_id, "type": "function"}
    if start.form == "text":
        call |= {"type": "custom", "custom": {"name": start.name, "input": ""}}
    else:
        call["function"] = {"name": start.name, "arguments": ""}
    return {"tool_calls": [merge(call, without(kept, MESSAGE))]}


def is_plain(form: Form | None) -> bool:
    """Return whether pieces are text of the message itself."""
    return form is _say


def is_told(form: Form | None) -> bool:
    """Return whether pieces are reasoning of another protocol."""
    return form is _think


def _say(text: str) -> dict[str, Any]:
    return {"content": text}


def _say_part(kept: Mapping[str, Any], text: str) -> dict[str, Any]:
    return {"content": [merge({"type": "text", "text": text}, kept)]}


def _refuse(text: str) -> dict[str, Any]:
    return {"refusal": text}


def _argue(place: int, text: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": place, "function": {"arguments": text}}]}


def _ask(place: int, text: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": place, "custom": {"input": text}}]}


def _argue_formerly(text: str) -> dict[str, Any]:
    return {"function_call": {"arguments": text}}


def _find_thought(channel: str, kept: Mapping[str, Any]) -> Form | None:
    if "part" in kept:
        rest = without(kept["part"], "thinking")
        return partial(_think_part, rest) if channel == "text" else None
    if "detail" in kept:
        detail = kept["detail"]
        fields = {word: name for name, word in GROWING.get(str(detail.get("type")), ())}
        if channel not in fields:
            return None
        names = kept.get("fields", ()) if channel != "signature" else ()
        return partial(_think_detail, detail, fields[channel], tuple(names))
    if "fields" in kept:
        return partial(_think_under, tuple(kept["fields"])) if channel == "text" else None
    return _think if channel in ("text", "summary") else None


def _think(text: str) -> dict[str, Any]:
    return {REASONING: text}


def _think_under(names: tuple[str, ...], text: str) -> dict[str, Any]:
    return dict.fromkeys(names, text)


def _think_detail(
    detail: Mapping[str, Any], field: str, names: tuple[str, ...], text: str
) -> dict[str, Any]:
    return {**dict.fromkeys(names, text), DETAILS: [{**detail, field: text}]}


def _think_part(rest: Mapping[str, Any], text: str) -> dict[str, Any]:
    part = {"type": "thinking", "thinking": [{"type": "text", "text": text}], **rest}
    return {"content": [part]}
