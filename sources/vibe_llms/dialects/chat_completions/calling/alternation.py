"""Messages in the order on which some vendors insist, beyond what all of them do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from vibe_llms.dialects.ledger import Ledger

BRIDGE: Final = "(no answer)"
"""What stands for a word of the model between a result and the user."""
OPENING: Final = "(no question)"
"""What stands for a word of the user before the model's first."""

Message = tuple[dict[str, Any], str]
"""A message, and the path of what it came from."""


def bridge(messages: Sequence[Message], ledger: Ledger) -> list[Message]:
    """Puts a word of the model between a result and what the user says next."""
    bridged: list[Message] = []
    for message, path in messages:
        if bridged and bridged[-1][0]["role"] == "tool" and message["role"] == "user":
            ledger.synthesize(path, "a word of the model stands before it: the vendor wants one")
            bridged.append(({"role": "assistant", "content": BRIDGE}, path))
        bridged.append((message, path))
    return bridged


def alternate(messages: Sequence[Message], ledger: Ledger) -> list[Message]:
    """Joins neighbours of one role, and lets the user begin."""
    joined: list[Message] = []
    for message, path in messages:
        last = joined[-1][0] if joined else None
        if last is None or last["role"] == "system":
            if message["role"] == "assistant":
                ledger.synthesize(path, "a word of the user stands before it: the user begins")
                joined.append(({"role": "user", "content": OPENING}, path))
        elif last["role"] == message["role"] != "tool":
            ledger.coerce(path, f"it joins the {message['role']}'s words before it")
            joined[-1] = (_join(last, message), joined[-1][1])
            continue
        joined.append((message, path))
    return joined


def _join(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    content: Any
    before, after = first.get("content") or "", second.get("content") or ""
    if isinstance(before, str) and isinstance(after, str):
        content = "\n\n".join(text for text in (before, after) if text)
    else:
        content = [*_list(before), *_list(after)]
    calls = [*first.get("tool_calls", ()), *second.get("tool_calls", ())]
    joined = {**first, **second, "content": content}
    return {**joined, "tool_calls": calls} if calls else joined


def _list(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
