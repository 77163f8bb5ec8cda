"""The vendor's rules for the order of contents with function calls, and for their signatures.

Models from the third generation on reject a function call of the current turn without a signature:
the first call of each content must have one. For calls of another model, Google documents a
placeholder that skips the check (ai.google.dev, "Thought signatures", questions: a history
transferred from a different model; read 2026-11-22).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.generate_content.calling.parts import SIGNATURE, WrittenContent
from vibe_llms.dialects.history import locate
from vibe_llms.dialects.ledger import Ledger

SIGNATURE_PLACEHOLDER: Final = "skip_thought_signature_validator"
"""Placeholder for the signature of a call by another vendor's model."""

_TWO_OF_THE_MODEL: Final = ("model", "model")

OPENING: Final = "(The conversation begins with a call.)"
"""The user's message before a conversation that begins with a function call."""


def join_calls(
    contents: Sequence[WrittenContent], locations: Sequence[int | str], ledger: Ledger
) -> list[WrittenContent]:
    """Join a content with calls to the model's content before it: calls must follow the user's.

    Args:
        locations: For each part of the contents, its place; see :func:`_locate`.
    """
    if _TWO_OF_THE_MODEL not in itertools.pairwise([content["role"] for content in contents]):
        return [*contents]  # as in most conversations
    joined: list[WrittenContent] = []
    first = 0  # the index of the content's first part among all parts
    for content in contents:
        parts = content["parts"]
        before = joined[-1] if joined else None
        if before is None or before["role"] != "model" or not _has_field(parts, "functionCall"):
            joined.append(content)
        else:
            path = _locate(parts[0], locations[first])
            ledger.coerce(path, "calls are joined to the preceding model message")
            before["parts"] += parts
            # The joined content has calls, too, so that it may have to be joined in turn.
            while len(joined) > 1 and joined[-2]["role"] == "model":
                last = joined.pop()
                joined[-1]["parts"] += last["parts"]
        first += len(parts)
    return joined


def sign_calls(
    contents: Sequence[WrittenContent], locations: Sequence[int | str], ledger: Ledger
) -> None:
    """Give the calls of the current turn without a signature the placeholder for one."""
    unsigned: list[tuple[dict[str, Any], int | str]] = []
    first = len(locations)  # the index of the content's first part among all parts
    for content in reversed(contents):
        parts = content["parts"]
        first -= len(parts)
        field = "functionResponse" if content["role"] == "user" else SIGNATURE
        for part in parts:  # no function, as there may be thousands of contents
            if field in part:
                break
        else:
            if field != SIGNATURE:
                break  # the current turn follows this input
            if calls := _find_calls(parts):
                unsigned.append((parts[calls[0]], locations[first + calls[0]]))
    reason = "a call of another model has no signature; a placeholder was added"
    for part, place in reversed(unsigned):
        part[SIGNATURE] = SIGNATURE_PLACEHOLDER
        ledger.synthesize(_locate(part, place), reason)


def begin_with_user(
    contents: list[WrittenContent], locations: Sequence[int | str], ledger: Ledger
) -> list[WrittenContent]:
    """Put a message of the user before a conversation that begins with a call."""
    parts = contents[0]["parts"] if contents else []
    if not parts or contents[0]["role"] != "model" or not _has_field(parts, "functionCall"):
        return contents
    reason = "a user message was inserted: calls must follow one"
    ledger.synthesize(_locate(parts[0], locations[0]), reason)
    return [{"role": "user", "parts": [{"text": OPENING}]}, *contents]


def _locate(part: Mapping[str, Any], place: int | str) -> str:
    """Return the path of a part.

    Args:
        place: The position of its canister if that is plain; otherwise the path.
    """
    if isinstance(place, str):
        return place
    # A text is the only content of a plain canister.
    return f"{locate(place)}.content[0]" if "text" in part else locate(place)


def _has_field(parts: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Return whether a part has a field; a generator would take thrice as long."""
    for part in parts:  # noqa: SIM110
        if name in part:
            return True
    return False


def _find_calls(parts: Sequence[Mapping[str, Any]]) -> list[int]:
    return [index for index, part in enumerate(parts) if "functionCall" in part]
