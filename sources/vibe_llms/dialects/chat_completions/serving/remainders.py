"""The part of a complete answer that was not streamed: the last frames send it.

What was sent cannot be changed: differences to the complete answer become losses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.chat_completions.calling.calls import is_known
from vibe_llms.dialects.chat_completions.calling.merging import copy_plain, grow
from vibe_llms.dialects.chat_completions.serving.forms import Form
from vibe_llms.dialects.chat_completions.tables import DETAILS
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.losses import Loss, LossKind

_LISTED: Final = ("content", DETAILS)
"""Fields of a message whose items have no index for merging."""
_PLAIN: Final = {"type", "text"}


@define
class PieceRun:
    """Consecutive pieces of one form."""

    form: Form
    pieces: list[str] = attrs.field(factory=list)


@define
class Streamed:
    """The streamed part of a message.

    Attributes:
        runs: In order; a run contains the sent delta itself.
    """

    runs: list[PieceRun | Mapping[str, Any]] = attrs.field(factory=list)

    def join(self) -> dict[str, Any]:
        """Return the message that a client has after reading all pieces."""
        message: dict[str, Any] = {name: [] for name in _LISTED}
        for run in self.runs:
            delta = run.form("".join(run.pieces)) if isinstance(run, PieceRun) else run
            for name in _LISTED:
                _extend(message[name], delta.get(name) or ())
            grow(message, {name: delta[name] for name in delta if name not in _LISTED})
        return message


def find_rest(
    message: Mapping[str, Any], streamed: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Loss]]:
    """Return the delta for the rest of a message, and the differences that cannot be corrected."""
    rest: dict[str, Any] = {}
    losses: list[Loss] = []
    for name in _LISTED:
        whole: list[Any] = []
        _extend(whole, message.get(name) or ())
        closing = _close_thought(whole, streamed[name])
        left = _subtract_list(whole, streamed[name])
        if left is None:
            losses.append(_tell(f"message.{name}"))
        elif left := closing + left:
            # A single text is sent as one, like all before it.
            is_text = name == "content" and len(left) == 1 and left[0].keys() == _PLAIN
            rest[name] = left[0]["text"] if is_text else left
    calls = message.get("tool_calls") or ()
    if not all(map(is_known, calls)):
        reason = "a stream cannot contain calls of an unknown type"
        losses.append(Loss(kind=LossKind.DROPPED, path="message.tool_calls", reason=reason))
    known = [call for call in calls if is_known(call)]
    numbered = [{**call, "index": place} for place, call in enumerate(known)]
    if left := [call for call in map(_subtracting(streamed, losses), numbered) if call]:
        rest["tool_calls"] = left
    others = {
        name: message[name] for name in message if name not in ("role", "tool_calls", *_LISTED)
    }
    return rest | _subtract(others, streamed, "message", losses), losses


def _extend(items: list[Any], pieces: str | Sequence[Any]) -> None:
    """Add pieces of a content, or of details, to the items that they continue."""
    pieces = [{"type": "text", "text": pieces}] if isinstance(pieces, str) else pieces
    for piece in pieces:
        last = items[-1] if items else None
        if last is None or not _go_on(last, piece):
            items.append(copy_plain(piece))


def _go_on(last: Any, piece: Any) -> bool:
    """Join a piece to the item before it, if both belong together; return whether they do."""
    if not isinstance(last, dict) or not isinstance(piece, Mapping):
        return False
    if last.keys() == _PLAIN == piece.keys() and last["type"] == piece["type"] == "text":
        last["text"] += piece["text"]
        return True
    if last.get("type") == piece.get("type") == "thinking":
        inner: list[Any] = [last.get("thinking"), piece.get("thinking")]
        if _without(last) == _without(piece) and all(map(_is_one_text, inner)):
            inner[0][0]["text"] += inner[1][0]["text"]
            return True
        return False
    is_detail = str(last.get("type")).startswith("reasoning.")
    if is_detail and all(last.get(n) == piece.get(n) for n in ("type", "index", "id")):
        grow(last, {name: value for name, value in piece.items() if name in _GROWN})
        last.update({name: value for name, value in piece.items() if name not in _GROWN})
        return True
    return False


_GROWN: Final = ("text", "summary", "signature", "data")


def _without(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != "thinking"}


def _is_one_text(inner: Any) -> bool:
    return isinstance(inner, list) and len(inner) == 1 and inner[0].keys() == _PLAIN


def _close_thought(whole: Sequence[Any], streamed: list[Any]) -> list[Any]:
    """Return the end of the last part of reasoning, and mark it as streamed."""
    places = [n for n, item in enumerate(streamed) if item.get("type") == "thinking"]
    if not places or len(whole) <= places[-1]:
        return []
    mine, last = streamed[places[-1]], whole[places[-1]]
    more = {name: value for name, value in last.items() if name not in mine}
    if not more or {**mine, **more} != last:
        return []
    streamed[places[-1]] = last
    return [{"type": "thinking", "thinking": [], **more}]


def _subtract_list(whole: list[Any], streamed: Sequence[Any]) -> list[Any] | None:
    """Return the remaining items; ``None`` if the streamed ones are not their beginning."""
    if not streamed:
        return whole
    *before, last = streamed
    if whole[: len(before)] != before or len(whole) < len(streamed):
        return None
    same, *left = whole[len(before) :]
    if same == last:
        return left
    told: list[Loss] = []
    rest = _subtract(same, last, "", told)
    if told or not isinstance(same, Mapping):
        return None
    key = [name for name in ("type", "index", "id") if name in same]
    return [{**{name: same[name] for name in key}, **rest}, *left]


def _subtracting(streamed: Mapping[str, Any], losses: list[Loss]) -> Any:
    calls = {call["index"]: call for call in streamed.get("tool_calls", ())}

    def subtract(call: Mapping[str, Any]) -> dict[str, Any]:
        path = f"message.tool_calls[{call['index']}]"
        rest = _subtract(call, calls.get(call["index"], {}), path, losses)
        return {"index": call["index"], **rest} if rest else rest

    return subtract


def _subtract(
    whole: Any, streamed: Mapping[str, Any], path: str, losses: list[Loss]
) -> dict[str, Any]:
    """Return the fields of an object that another lacks; texts are continued."""
    rest: dict[str, Any] = {}
    for name, value in whole.items():
        before = streamed.get(name)
        if before in (None, ""):
            if value is not None:
                rest[name] = value
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            if left := _subtract(value, before, f"{path}.{name}", losses):
                rest[name] = left
        elif isinstance(value, str) and isinstance(before, str) and value.startswith(before):
            if value != before:
                rest[name] = value[len(before) :]
        elif value != before:
            losses.append(_tell(f"{path}.{name}"))
    return rest


def _tell(path: str) -> Loss:
    reason = "the final value differs from the streamed one, which remains"
    return Loss(kind=LossKind.COERCED, path=path, reason=reason)
