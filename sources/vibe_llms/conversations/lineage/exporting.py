"""Families and differences as plain data, for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vibe_llms.conversations.lineage.differences import (
    Change,
    ConversationDifference,
    MessageDifference,
    TurnDifference,
    compare_words,
)
from vibe_llms.conversations.lineage.families import Relative, walk
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.codec.converter import produce_converter
from vibe_llms.messages.views import describe_contents


def export_family(family: Relative) -> list[dict[str, Any]]:
    """Return a tree as a flat list, parents before their forks.

    A chain of forks can be longer than JSON may nest.
    """
    return [
        {
            **each.row._asdict(),
            "depth": each.depth,
            "shared": each.shared,
            "own_role": each.own_role,
            "own_words": each.own_words,
        }
        for each in walk(family)
    ]


def export_common(difference: ConversationDifference) -> dict[str, Any]:
    """Return the common beginning of two conversations."""
    return {
        "messages": difference.common,
        "turns": difference.common_turns,
        "shared": difference.shared,
        "last": _export_message(difference.last_common, difference.common - 1),
    }


def export_turns(turns: Sequence[TurnDifference]) -> list[dict[str, Any]]:
    """Return the turns that differ, with the words of their messages as pieces."""
    return [
        {
            "first": turn.first and turn.first.number,
            "second": turn.second and turn.second.number,
            "messages": [
                {
                    "first": _export_message(each.first, each.first_index),
                    "second": _export_message(each.second, each.second_index),
                    "words": compare_texts(each),
                }
                for each in turn.messages
            ],
        }
        for turn in turns
    ]


def compare_texts(message: MessageDifference) -> list[tuple[Change, str]]:
    """Return the texts of two messages as pieces that are equal, removed or added."""
    first, second = map(write_text, (message.first, message.second))
    if message.second is None:
        return [("removed", first)]
    if message.first is None:
        return [("added", second)]
    return list(compare_words(first, second))


def write_text(canister: AnyCanister | None) -> str:
    """Return all that a message says, with calls, and media by their names."""
    if canister is None:
        return ""
    return "\n".join(text for _, text in describe_contents(canister))


def _export_message(canister: AnyCanister | None, index: int | None) -> dict[str, Any] | None:
    if canister is None:
        return None
    message: dict[str, Any] = produce_converter().unstructure(canister)
    return {"index": index, **message}
