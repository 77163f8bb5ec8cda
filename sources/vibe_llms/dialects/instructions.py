"""System messages for models that accept only one, at the beginning."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final, TypeAlias

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.models.attributes import Capability, ModelAttributes

LATE: Final = "instructions within a conversation are sent as text of the user"
"""Reason of the loss for late instructions, in every dialect."""

_ROLES: Final = ("system", "developer")

Message: TypeAlias = tuple[dict[str, Any], str]
"""A message, and the path of its canister."""


def accepts_late_instructions(attributes: ModelAttributes) -> bool:
    """Return whether a model accepts instructions in the middle of a conversation."""
    return attributes.access_capability("supports_late_supervisor") is not Capability.NO


def needs_arrangement(messages: Sequence[dict[str, Any]], attributes: ModelAttributes) -> bool:
    """Return whether :func:`arrange_instructions` changes any of these messages."""
    if accepts_late_instructions(attributes):
        return False
    return not {each["role"] for each in messages[1:]}.isdisjoint(_ROLES)


def arrange_instructions(
    messages: Sequence[Message], attributes: ModelAttributes, ledger: Ledger
) -> list[Message]:
    """Join the system messages at the beginning, and convert later ones to user messages.

    The templates of many open models only accept a system message as the first message:
    https://github.com/ollama/ollama/issues/17774. For other models, nothing changes.
    """
    if accepts_late_instructions(attributes):
        return list(messages)
    leading = list(takewhile(lambda each: each[0]["role"] in _ROLES, messages))
    for _, path in leading[1:]:
        ledger.coerce(path, "it is joined to the preceding instructions")
    arranged = (
        [(join_instructions([each for each, _ in leading]), leading[0][1])] if leading else []
    )
    for message, path in messages[len(leading) :]:
        if message["role"] in _ROLES:
            ledger.coerce(path, LATE)
            arranged.append(({**message, "role": "user"}, path))
        else:
            arranged.append((message, path))
    return arranged


def join_instructions(messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return several system messages as one."""
    contents = [each["content"] for each in messages]
    if all(isinstance(each, str) for each in contents):
        joined: Any = "\n\n".join(filter(None, contents))
    else:
        joined = [part for each in contents for part in list_parts(each)]
    return {**messages[0], "content": joined} if len(messages) > 1 else messages[0]


def list_parts(content: Any) -> list[Any]:
    """Return a content as a list of parts; a text is one part."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
