"""The vendor's rules for the order of contents with function calls, and for their signatures.

Models from the third generation on reject a function call of the current turn without a signature:
the first call of each content must have one. For calls of another model, Google documents a
placeholder that skips the check (ai.google.dev, "Thought signatures", questions: a history
transferred from a different model; read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vibe_llms.dialects.generate_content.calling.parts import SIGNATURE, WrittenContent
from vibe_llms.dialects.ledger import Ledger

SIGNATURE_PLACEHOLDER: Final = "skip_thought_signature_validator"
"""Placeholder for the signature of a call by another vendor's model."""

OPENING: Final = "(The conversation begins with a call.)"
"""The user's message before a conversation that begins with a function call."""


def join_calls(contents: Sequence[WrittenContent], ledger: Ledger) -> list[WrittenContent]:
    """Join a content with calls to the model's content before it: calls must follow the user's."""
    joined: list[WrittenContent] = []
    for content in contents:
        before = joined[-1] if joined else None
        if before is None or before.role != "model" or not _has_calls(content):
            joined.append(content)
            continue
        ledger.coerce(content.locate(0), "calls are joined to the preceding model message")
        _append(before, content)
        # The joined content has calls, too, so that it may have to be joined in turn.
        while len(joined) > 1 and joined[-2].role == "model":
            last = joined.pop()
            _append(joined[-1], last)
    return joined


def _append(before: WrittenContent, content: WrittenContent) -> None:
    for part, place in zip(content.parts, content.locations, strict=True):
        before.add(part, place)


def sign_calls(contents: Sequence[WrittenContent], ledger: Ledger) -> None:
    """Give the calls of the current turn without a signature the placeholder for one."""
    positions = range(len(contents) - 1, -1, -1)
    begin = next((index for index in positions if _is_user_input(contents[index])), -1)
    for content in contents[begin + 1 :]:
        if content.role != "model" or _has_field(content, SIGNATURE):
            continue
        calls = _find_calls(content)
        if not calls:
            continue
        content.parts[calls[0]][SIGNATURE] = SIGNATURE_PLACEHOLDER
        reason = "a call of another model has no signature; a placeholder was added"
        ledger.synthesize(content.locate(calls[0]), reason)


def begin_with_user(contents: list[WrittenContent], ledger: Ledger) -> list[WrittenContent]:
    """Put a message of the user before a conversation that begins with a call."""
    if not contents or contents[0].role != "model" or not _has_calls(contents[0]):
        return contents
    first = WrittenContent("user")
    first.add({"text": OPENING}, contents[0].locate(0))
    ledger.synthesize(contents[0].locate(0), "a user message was inserted: calls must follow one")
    return [first, *contents]


def _has_calls(content: WrittenContent) -> bool:
    return _has_field(content, "functionCall")


def _has_field(content: WrittenContent, name: str) -> bool:
    """Return whether a part has a field; a generator would take thrice as long."""
    for part in content.parts:  # noqa: SIM110
        if name in part:
            return True
    return False


def _find_calls(content: WrittenContent) -> list[int]:
    return [index for index, part in enumerate(content.parts) if "functionCall" in part]


def _is_user_input(content: WrittenContent) -> bool:
    return content.role == "user" and not _has_field(content, "functionResponse")
