"""The part of a complete answer that was not streamed; the last frames of a stream send it.

Streamed data cannot be changed: where they differ from the complete answer, a loss is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeGuard

import attrs

from vibe_llms.dialects.chat_completions.calling.calls import is_known
from vibe_llms.dialects.chat_completions.calling.merging import append_piece, copy_plain
from vibe_llms.dialects.chat_completions.serving.delta_writers import DeltaWriter
from vibe_llms.dialects.chat_completions.tables import REASONING_DETAILS
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.losses import Loss, LossKind

_LIST_FIELDS: Final = ("content", REASONING_DETAILS)
"""Fields of a message whose items have no index for merging."""

_APPENDED_FIELDS: Final = ("text", "summary", "signature", "data")
"""Fields of a reasoning detail that grow with each piece; the others are repeated."""

_IDENTITY_FIELDS: Final = ("type", "index", "id")
"""Fields that are equal in all pieces of one item."""

_TEXT_PART_FIELDS: Final = {"type", "text"}

_Fields: TypeAlias = dict[str, Any]


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
        message: dict[str, Any] = {}
        pieces: dict[str, list[Any]] = {name: [] for name in _LIST_FIELDS}
        for run in self.runs:
            delta = run.write_delta("".join(run.pieces)) if isinstance(run, PieceRun) else run
            for name in _LIST_FIELDS:
                pieces[name].extend(_list_pieces(delta.get(name)))
            append_piece(message, _leave_out(delta, _LIST_FIELDS))
        for name in _LIST_FIELDS:
            message[name] = _join_pieces(pieces[name])
        return message


def find_rest(
    message: Mapping[str, Any], streamed: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Loss]]:
    """Return the delta for the rest of a message, and the differences that cannot be corrected.

    Args:
        message: The complete message.
        streamed: The message that the client has; see :meth:`Streamed.join`.
    """
    rest: dict[str, Any] = {}
    losses: list[Loss] = []
    for name in _LIST_FIELDS:
        items = _join_pieces(_list_pieces(message.get(name)))
        remaining = _find_remaining_items(items, streamed[name])
        if remaining is None:
            losses.append(_describe_difference(f"message.{name}"))
        elif name == "content" and len(remaining) == 1 and _is_text_part(remaining[0]):
            rest[name] = remaining[0]["text"]  # a single text is sent as a text, not as a list
        elif remaining:
            rest[name] = remaining
    calls = message.get("tool_calls") or ()
    known_calls = [call for call in calls if is_known(call)]
    if len(known_calls) < len(calls):
        reason = "a stream cannot contain calls of an unknown type"
        losses.append(Loss(kind=LossKind.DROPPED, path="message.tool_calls", reason=reason))
    remaining_calls, call_losses = _find_remaining_calls(known_calls, streamed)
    if remaining_calls:
        rest["tool_calls"] = remaining_calls
    other_fields = _leave_out(message, ("role", "tool_calls", *_LIST_FIELDS))
    remaining_fields, field_losses = _subtract(other_fields, streamed, "message")
    return rest | remaining_fields, [*losses, *call_losses, *field_losses]


def _list_pieces(value: str | Sequence[Any] | None) -> Sequence[Any]:
    """Return the pieces of a field's value; a text is one piece."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}] if value else []
    return value or []


def _join_pieces(pieces: Sequence[Any]) -> list[Any]:
    """Return the items of a list field: consecutive pieces of one item are joined."""
    items: list[Any] = []
    for piece in pieces:
        joined = _join_piece(items[-1], piece) if items else None
        if joined is None:
            items.append(copy_plain(piece))
        else:
            items[-1] = joined
    return items


def _join_piece(item: Any, piece: Any) -> _Fields | None:
    """Return an item with a further piece; ``None`` if the piece belongs to another item."""
    if not isinstance(item, dict) or not isinstance(piece, Mapping):
        return None
    if _is_text_part(item) and _is_text_part(piece):
        return {**item, "text": item["text"] + piece["text"]}
    if item.get("type") == piece.get("type") == "thinking":
        return _join_thinking(item, piece)
    is_detail = str(item.get("type")).startswith("reasoning.")
    if is_detail and all(item.get(name) == piece.get(name) for name in _IDENTITY_FIELDS):
        joined = dict(item)
        for name, value in piece.items():
            if name in _APPENDED_FIELDS:
                append_piece(joined, {name: value})
            else:
                joined[name] = value
        return joined
    return None


def _join_thinking(part: _Fields, piece: Mapping[str, Any]) -> _Fields | None:
    """Join two parts of reasoning, each with one text, if their other fields are equal."""
    texts, more_texts = part.get("thinking"), piece.get("thinking")
    if not _is_one_text(texts) or not _is_one_text(more_texts):
        return None
    if _leave_out(part, ("thinking",)) != _leave_out(piece, ("thinking",)):
        return None
    text = texts[0]["text"] + more_texts[0]["text"]
    return {**part, "thinking": [{**texts[0], "text": text}]}


def _is_one_text(texts: Any) -> TypeGuard[list[_Fields]]:
    return isinstance(texts, list) and len(texts) == 1 and _is_text_part(texts[0])


def _is_text_part(item: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether an item is a text without any other field."""
    return (
        isinstance(item, Mapping)
        and item.keys() == _TEXT_PART_FIELDS
        and item["type"] == "text"
        and isinstance(item["text"], str)
    )


def _leave_out(fields: Mapping[str, Any], names: Sequence[str]) -> _Fields:
    return {name: value for name, value in fields.items() if name not in names}


def _find_remaining_items(items: list[Any], streamed: Sequence[Any]) -> list[Any] | None:
    """Return the remaining items; ``None`` if the items do not begin with the streamed items."""
    position = _find_last_reasoning(streamed)
    if position is None or position >= len(items):
        return _subtract_items(items, streamed)
    final = items[position]
    end = _find_reasoning_end(final, streamed[position])
    if end is None:
        return _subtract_items(items, streamed)
    completed = [*streamed[:position], final, *streamed[position + 1 :]]
    remaining = _subtract_items(items, completed)
    return None if remaining is None else [end, *remaining]


def _find_last_reasoning(streamed: Sequence[Any]) -> int | None:
    """Return the position of the last part of reasoning."""
    for position in reversed(range(len(streamed))):
        item = streamed[position]
        if isinstance(item, Mapping) and item.get("type") == "thinking":
            return position
    return None


def _find_reasoning_end(final: Any, streamed: Mapping[str, Any]) -> _Fields | None:
    """Return a part with the fields that follow the text of a part of reasoning.

    Returns:
        ``None`` if there are none, or if the text is not complete.
    """
    if not isinstance(final, Mapping):
        return None
    later_fields = _leave_out(final, tuple(streamed))
    if not later_fields or {**streamed, **later_fields} != final:
        return None
    return {"type": "thinking", "thinking": [], **later_fields}


def _subtract_items(items: list[Any], streamed: Sequence[Any]) -> list[Any] | None:
    """Return the remaining items, the first of which may be the rest of a streamed one.

    Returns:
        ``None`` if the streamed items are not the beginning.
    """
    if not streamed:
        return items
    *complete, last_streamed = streamed
    position = len(complete)
    if items[:position] != complete or position >= len(items):
        return None
    final, following = items[position], items[position + 1 :]
    if final == last_streamed:
        return following
    if not isinstance(final, Mapping) or not isinstance(last_streamed, Mapping):
        return None
    rest, differences = _subtract(final, last_streamed, "")
    if differences:
        return None
    identity = {name: final[name] for name in _IDENTITY_FIELDS if name in final}
    return [{**identity, **rest}, *following]


def _find_remaining_calls(
    calls: Sequence[Mapping[str, Any]], streamed: Mapping[str, Any]
) -> tuple[list[_Fields], list[Loss]]:
    """Return the remaining fields of each call that was not streamed whole, and the differences."""
    streamed_calls = {call["index"]: call for call in streamed.get("tool_calls", ())}
    remaining: list[_Fields] = []
    losses: list[Loss] = []
    for index, call in enumerate(calls):
        path = f"message.tool_calls[{index}]"
        rest, differences = _subtract({**call, "index": index}, streamed_calls.get(index, {}), path)
        losses.extend(differences)
        if rest:
            remaining.append({"index": index, **rest})
    return remaining, losses


def _subtract(
    whole: Mapping[str, Any], streamed: Mapping[str, Any], path: str
) -> tuple[_Fields, list[Loss]]:
    """Return the fields that were not streamed, or the rest of their texts, and the differences."""
    rest: _Fields = {}
    losses: list[Loss] = []
    for name, value in whole.items():
        before = streamed.get(name)
        if before in (None, ""):
            if value is not None:
                rest[name] = value
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            remaining, differences = _subtract(value, before, f"{path}.{name}")
            losses.extend(differences)
            if remaining:
                rest[name] = remaining
        elif isinstance(value, str) and isinstance(before, str) and value.startswith(before):
            if value != before:
                rest[name] = value[len(before) :]
        elif value != before:
            losses.append(_describe_difference(f"{path}.{name}"))
    return rest, losses


def _describe_difference(path: str) -> Loss:
    reason = "the final value differs from the streamed one, which remains"
    return Loss(kind=LossKind.COERCED, path=path, reason=reason)
