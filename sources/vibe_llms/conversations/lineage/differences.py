"""Differences between two conversations: the common beginning, then turn by turn."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile, zip_longest
from typing import Final, Literal, NamedTuple, TypeAlias

import attrs

from vibe_llms.conversations.lineage.turns import Turn, split_turns
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import MEDIA_CLASSES, AnyContent, ReasoningContent

Change: TypeAlias = Literal["equal", "removed", "added"]

_MAX_WORDS: Final = 20_000
"""Maximum number of words of a text that is compared word by word; longer texts by lines."""

_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")
_PLACE_FIELDS: Final = frozenset({"id", "timestamp", "origin", "turn_id", "native", "content"})


@frozen(kw_only=True)
class MessageDifference:
    """Two messages in the same place, which differ.

    Attributes:
        first: Message of the first conversation; ``None`` if it has none here.
        second: Message of the second conversation; ``None`` if it has none here.
        first_index: Its position in the first conversation.
        second_index: Its position in the second conversation.
    """

    first: AnyCanister | None = None
    second: AnyCanister | None = None
    first_index: int | None = None
    second_index: int | None = None


@frozen(kw_only=True)
class TurnDifference:
    """Two turns that differ, or a turn that only one conversation has.

    Attributes:
        first: Turn of the first conversation, or ``None``.
        second: Turn of the second conversation, or ``None``.
        messages: Their messages that differ.
    """

    first: Turn | None
    second: Turn | None
    messages: tuple[MessageDifference, ...]


@frozen(kw_only=True)
class ConversationDifference:
    """Differences between two conversations.

    Attributes:
        first: Id of the first conversation.
        second: Id of the second conversation.
        common: Number of messages of the common beginning.
        common_turns: Number of complete turns in it.
        shared: Number of leading messages that are the same, not only equal: one conversation is a
            fork of the other, or both are forks.
        last_common: Last message of the common beginning; ``None`` without one.
        turns: Differences, in order; empty if the conversations are equal.
    """

    first: str
    second: str
    common: int
    common_turns: int
    shared: int
    last_common: AnyCanister | None
    turns: tuple[TurnDifference, ...]


def compare_conversations(
    store: ConversationStore, first: str, second: str
) -> ConversationDifference:
    """Compare two stored conversations by what was said.

    Ids, times, models and costs do not count as differences.

    Raises:
        UnknownConversationError: A conversation does not exist.
        CorruptionError: A conversation is damaged.
    """
    ones, others = store.read(first).canisters, store.read(second).canisters
    keys = [[_find_meaning(each) for each in side] for side in (ones, others)]
    common = _count_equal(*keys)
    one_turns, other_turns = split_turns(ones), split_turns(others)
    is_whole = len(ones) == len(others) == common
    equal_turns = _count_equal(
        *(
            [keys[side][turn.start : turn.start + len(turn.canisters)] for turn in turns]
            for side, turns in enumerate((one_turns, other_turns))
        )
    )
    return ConversationDifference(
        first=first,
        second=second,
        common=common,
        common_turns=equal_turns,
        shared=_count_equal([each.id for each in ones], [each.id for each in others]),
        last_common=ones[common - 1] if common else None,
        turns=() if is_whole else tuple(_align(one_turns, other_turns, *keys)),
    )


def compare_words(first: str, second: str) -> tuple[tuple[Change, str], ...]:
    """Compare two texts by words; very long ones by lines. Return the pieces of both, in order."""
    ones, others = _WORDS.findall(first), _WORDS.findall(second)
    if max(len(ones), len(others)) > _MAX_WORDS:
        ones, others = first.splitlines(keepends=True), second.splitlines(keepends=True)
    pieces: list[tuple[Change, str]] = []
    for tag, start, end, other_start, other_end in SequenceMatcher(
        None, ones, others
    ).get_opcodes():
        if tag == "equal":
            pieces.append(("equal", "".join(ones[start:end])))
            continue
        if end > start:
            pieces.append(("removed", "".join(ones[start:end])))
        if other_end > other_start:
            pieces.append(("added", "".join(others[other_start:other_end])))
    return tuple(pieces)


def _find_meaning(canister: AnyCanister) -> Hashable:
    """Return a value that is equal for messages that say the same."""
    fields = [
        getattr(canister, field.name)
        for field in attrs.fields(type(canister))
        if field.name not in _PLACE_FIELDS
    ]
    return (*fields, tuple(map(_strip, canister.content)))


def _strip(content: AnyContent) -> AnyContent:
    """Return a content without a vendor's fields, and without bytes, which its id identifies."""
    if isinstance(content, ReasoningContent):
        return attrs.evolve(content, native=None, signature=None)
    if isinstance(content, MEDIA_CLASSES):
        return attrs.evolve(content, native=None, data=None)
    if content.type in ("text", "refusal"):
        return attrs.evolve(content, native=None)
    return content


def _count_equal(first: Sequence[object], second: Sequence[object]) -> int:
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _align(
    ones: Sequence[Turn],
    others: Sequence[Turn],
    one_keys: Sequence[Hashable],
    other_keys: Sequence[Hashable],
) -> Iterator[TurnDifference]:
    """Yield the differences; equal turns after the first difference are found again."""
    one_lists = [_list_messages(turn, one_keys) for turn in ones]
    other_lists = [_list_messages(turn, other_keys) for turn in others]
    changes = _survey_changes(
        [tuple(message.meaning for message in messages) for messages in one_lists],
        [tuple(message.meaning for message in messages) for messages in other_lists],
    )
    for start, end, other_start, other_end in changes:
        for one, other in zip_longest(range(start, end), range(other_start, other_end)):
            yield TurnDifference(
                first=None if one is None else ones[one],
                second=None if other is None else others[other],
                messages=tuple(
                    _pair_messages(
                        [] if one is None else one_lists[one],
                        [] if other is None else other_lists[other],
                    )
                ),
            )


def _survey_changes(
    ones: Sequence[Hashable], others: Sequence[Hashable]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield start and end of each difference in both sequences.

    The work is proportional to the length: equal ends are removed first, and items that are
    frequent in a long sequence do not decide what is equal (``autojunk``).
    """
    head = _count_equal(ones, others)
    tail = _count_equal(ones[head:][::-1], others[head:][::-1])
    ends = len(ones) - tail, len(others) - tail
    matcher = SequenceMatcher(None, ones[head : ends[0]], others[head : ends[1]])
    for tag, *places in matcher.get_opcodes():
        if tag != "equal":
            start, end, other_start, other_end = (head + place for place in places)
            yield start, end, other_start, other_end


class _Message(NamedTuple):
    index: int  # type: ignore[assignment]  # tuples have a method of this name
    canister: AnyCanister
    meaning: Hashable


def _list_messages(turn: Turn, keys: Sequence[Hashable]) -> list[_Message]:
    return [
        _Message(index, canister, keys[index])
        for index, canister in enumerate(turn.canisters, turn.start)
    ]


def _pair_messages(
    ones: Sequence[_Message], others: Sequence[_Message]
) -> Iterator[MessageDifference]:
    """Pair the different messages of two turns as long as their roles are equal."""
    changes = _survey_changes([each.meaning for each in ones], [each.meaning for each in others])
    for start, end, other_start, other_end in changes:
        removed, added = list(ones[start:end]), list(others[other_start:other_end])
        while removed and added and removed[0].canister.role == added[0].canister.role:
            yield _differ(removed.pop(0), added.pop(0))
        yield from (_differ(message, None) for message in removed)
        yield from (_differ(None, message) for message in added)


def _differ(one: _Message | None, other: _Message | None) -> MessageDifference:
    return MessageDifference(
        first=None if one is None else one.canister,
        second=None if other is None else other.canister,
        first_index=None if one is None else one.index,
        second_index=None if other is None else other.index,
    )
