"""The part of a complete answer that was not streamed: the last frames send it.

What was sent cannot be changed: differences to the complete answer become losses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.chat_completions.calling.calls import is_known
from vibe_llms.dialects.chat_completions.calling.merging import append_piece, copy_plain
from vibe_llms.dialects.chat_completions.serving.delta_writers import DeltaWriter
from vibe_llms.dialects.chat_completions.tables import REASONING_DETAILS
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.losses import Loss, LossKind

_LIST_FIELDS: Final = ("content", REASONING_DETAILS)
"""Fields of a message whose items have no index for merging."""
_TEXT_PART_FIELDS: Final = {"type", "text"}


@define
class PieceRun:
    """Consecutive pieces of text that one function writes as deltas."""

    write_delta: DeltaWriter
    pieces: list[str] = attrs.field(factory=list)


@define
class Streamed:
    """The streamed part of a message.

    Attributes:
        runs: The streamed deltas, in order; consecutive pieces with the same writer are one run.
    """

    runs: list[PieceRun | Mapping[str, Any]] = attrs.field(factory=list)

    def join(self) -> dict[str, Any]:
        """Return the message that a client has after reading all pieces."""
        message: dict[str, Any] = {name: [] for name in _LIST_FIELDS}
        for run in self.runs:
            delta = run.write_delta("".join(run.pieces)) if isinstance(run, PieceRun) else run
            for name in _LIST_FIELDS:
                _extend(message[name], delta.get(name) or ())
            append_piece(message, {name: delta[name] for name in delta if name not in _LIST_FIELDS})
        return message


def find_rest(
    message: Mapping[str, Any], streamed: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Loss]]:
    """Return the delta for the rest of a message, and the differences that cannot be corrected."""
    rest: dict[str, Any] = {}
    losses: list[Loss] = []
    for name in _LIST_FIELDS:
        whole: list[Any] = []
        _extend(whole, message.get(name) or ())
        ending = _close_reasoning(whole, streamed[name])
        left = _subtract_list(whole, streamed[name])
        if left is None:
            losses.append(_describe_difference(f"message.{name}"))
        elif left := ending + left:
            # A single text is sent as one, like all before it.
            is_text = name == "content" and len(left) == 1 and left[0].keys() == _TEXT_PART_FIELDS
            rest[name] = left[0]["text"] if is_text else left
    calls = message.get("tool_calls") or ()
    if not all(map(is_known, calls)):
        reason = "a stream cannot contain calls of an unknown type"
        losses.append(Loss(kind=LossKind.DROPPED, path="message.tool_calls", reason=reason))
    known = [call for call in calls if is_known(call)]
    numbered = [{**call, "index": position} for position, call in enumerate(known)]
    if left := _subtract_calls(numbered, streamed, losses):
        rest["tool_calls"] = left
    others = {
        name: message[name] for name in message if name not in ("role", "tool_calls", *_LIST_FIELDS)
    }
    return rest | _subtract(others, streamed, "message", losses), losses


def _extend(items: list[Any], pieces: str | Sequence[Any]) -> None:
    """Add pieces of a content, or of details, to the items that they continue."""
    pieces = [{"type": "text", "text": pieces}] if isinstance(pieces, str) else pieces
    for piece in pieces:
        last = items[-1] if items else None
        if last is None or not _join_piece(last, piece):
            items.append(copy_plain(piece))


def _join_piece(last: Any, piece: Any) -> bool:
    """Join a piece to the item before it, if both belong together; return whether they do."""
    if not isinstance(last, dict) or not isinstance(piece, Mapping):
        return False
    if last.keys() == _TEXT_PART_FIELDS == piece.keys() and last["type"] == piece["type"] == "text":
        last["text"] += piece["text"]
        return True
    if last.get("type") == piece.get("type") == "thinking":
        inner: list[Any] = [last.get("thinking"), piece.get("thinking")]
        if _without_thinking(last) == _without_thinking(piece) and all(map(_is_one_text, inner)):
            inner[0][0]["text"] += inner[1][0]["text"]
            return True
        return False
    is_detail = str(last.get("type")).startswith("reasoning.")
    if is_detail and all(last.get(name) == piece.get(name) for name in ("type", "index", "id")):
        append_piece(
            last, {name: value for name, value in piece.items() if name in _APPENDED_FIELDS}
        )
        last.update({name: value for name, value in piece.items() if name not in _APPENDED_FIELDS})
        return True
    return False


_APPENDED_FIELDS: Final = ("text", "summary", "signature", "data")


def _without_thinking(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != "thinking"}


def _is_one_text(inner: Any) -> bool:
    return isinstance(inner, list) and len(inner) == 1 and inner[0].keys() == _TEXT_PART_FIELDS


def _close_reasoning(whole: Sequence[Any], streamed: list[Any]) -> list[Any]:
    """Return the end of the last part of reasoning, and mark it as streamed."""
    positions = [
        position for position, item in enumerate(streamed) if item.get("type") == "thinking"
    ]
    if not positions or len(whole) <= positions[-1]:
        return []
    position = positions[-1]
    sent, final = streamed[position], whole[position]
    more = {name: value for name, value in final.items() if name not in sent}
    if not more or {**sent, **more} != final:
        return []
    streamed[position] = final
    return [{"type": "thinking", "thinking": [], **more}]


def _subtract_list(whole: list[Any], streamed: Sequence[Any]) -> list[Any] | None:
    """Return the remaining items; ``None`` if the streamed ones are not their beginning."""
    if not streamed:
        return whole
    *complete, last = streamed
    if whole[: len(complete)] != complete or len(whole) < len(streamed):
        return None
    same, *left = whole[len(complete) :]
    if same == last:
        return left
    differences: list[Loss] = []
    rest = _subtract(same, last, "", differences)
    if differences or not isinstance(same, Mapping):
        return None
    identity = {name: same[name] for name in ("type", "index", "id") if name in same}
    return [{**identity, **rest}, *left]


def _subtract_calls(
    calls: Sequence[Mapping[str, Any]], streamed: Mapping[str, Any], losses: list[Loss]
) -> list[dict[str, Any]]:
    """Return the remaining fields of each call, without the calls that were streamed whole."""
    streamed_calls = {call["index"]: call for call in streamed.get("tool_calls", ())}
    remaining: list[dict[str, Any]] = []
    for call in calls:
        index = call["index"]
        rest = _subtract(
            call, streamed_calls.get(index, {}), f"message.tool_calls[{index}]", losses
        )
        if rest:
            remaining.append({"index": index, **rest})
    return remaining


def _subtract(
    whole: Any, streamed: Mapping[str, Any], path: str, losses: list[Loss]
) -> dict[str, Any]:
    """Return the fields of an object that were not streamed; of a text, the part after it."""
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
            losses.append(_describe_difference(f"{path}.{name}"))
    return rest


def _describe_difference(path: str) -> Loss:
    reason = "the final value differs from the streamed one, which remains"
    return Loss(kind=LossKind.COERCED, path=path, reason=reason)
