"""Compaction by the vendor: the fields that ask for it, and what need not be sent after it.

The vendor replaces earlier turns by a block that only it understands. The block is part of its
answer, and so of the conversation, which keeps all messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.foundation.json_types import JsonObject

_MESSAGES_EDIT: Final = "compact_20260112"
_MESSAGES_BETA: Final = "compact-2026-01-12"
_MESSAGES_MINIMUM: Final = 50_000
"""Lowest number of tokens at which Anthropic compacts a conversation:
https://platform.claude.com/docs/en/build-with-claude/compaction, read 2026-11-29.
"""
_INSTRUCTIONS: Final = ("system", "developer")


def compact_messages(body: JsonObject, threshold: int | None) -> JsonObject:
    """Return a body of Anthropic's Messages that lets the vendor compact the conversation.

    Args:
        threshold: Number of tokens from which on it does; ``None`` for the vendor's default.
    """
    edit: dict[str, Any] = {"type": _MESSAGES_EDIT}
    if threshold is not None:
        value = max(threshold, _MESSAGES_MINIMUM)
        edit["trigger"] = {"type": "input_tokens", "value": value}
    management: Any = body.get("context_management") or {}
    edits: list[Any] = list(management.get("edits", ()))
    if not any(each.get("type") == _MESSAGES_EDIT for each in edits):
        edits.append(edit)
    betas: Any = body.get("betas", ())
    return {
        **body,
        "messages": _start_at_block(body["messages"]),
        "context_management": {**management, "edits": edits},
        "betas": list(dict.fromkeys((*betas, _MESSAGES_BETA))),
    }


def _start_at_block(messages: Any) -> Any:
    """Return the messages from the last compaction on; it may be in the middle of a message."""
    for index in range(len(messages) - 1, -1, -1):
        blocks = messages[index]["content"]
        place = -1 if isinstance(blocks, str) else _find_last(blocks, "content")
        if place >= 0:
            return [{**messages[index], "content": blocks[place:]}, *messages[index + 1 :]]
    return messages


def compact_responses(body: JsonObject, threshold: int | None) -> JsonObject:
    """Return a body of OpenAI's Responses that lets the vendor compact the conversation.

    Args:
        threshold: Number of tokens from which on it does; ``None`` for the vendor's default.
    """
    entry: dict[str, Any] = {"type": "compaction"}
    if threshold is not None:
        entry["compact_threshold"] = threshold
    changed: dict[str, Any] = {**body}
    changed.setdefault("context_management", [entry])
    items: Any = body.get("input")
    if isinstance(items, list) and (place := _find_last(items, "encrypted_content")) > 0:
        instructions = [each for each in items[:place] if each.get("role") in _INSTRUCTIONS]
        changed["input"] = [*instructions, *items[place:]]
    return changed


def _find_last(parts: Sequence[Mapping[str, Any]], field: str) -> int:
    """Return the index of the last compaction that did not fail; -1 without one."""
    for index in range(len(parts) - 1, -1, -1):
        if parts[index].get("type") == "compaction" and parts[index].get(field):
            return index
    return -1
