"""Families of conversations: the forks of a conversation and of its ancestors, as a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile

from vibe_llms.conversations.index.extraction import compose_first_words
from vibe_llms.conversations.index.interfaces import Index
from vibe_llms.conversations.index.messages import IndexedMessage
from vibe_llms.conversations.index.result_rows import ConversationRow
from vibe_llms.exceptions import UnknownConversationError
from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Relative:
    """One conversation of a family.

    Attributes:
        row: Its id, name, times and size.
        depth: Number of its ancestors.
        shared: Number of leading messages that it shares with its parent; ``None`` if unknown, or
            without a parent.
        own_role: Role of its first message that its parent lacks; empty without such a message.
        own_words: Beginning of that message's text, on one line.
        children: Its forks, oldest first.
    """

    row: ConversationRow
    depth: int
    shared: int | None
    own_role: str
    own_words: str
    children: tuple[Relative, ...]


def survey_family(
    index: Index, identity: str, *, admits: Callable[[str], bool] = lambda _: True
) -> Relative:
    """Return the family of a conversation, from its oldest ancestor on.

    Args:
        index: Index of the store, which lists conversations and their fork points.
        identity: Id of any conversation of the family.
        admits: Whether a conversation, given by its id, may be shown; others are left out with
            their forks.

    Raises:
        UnknownConversationError: The conversation is not listed.
    """
    by_id = {row.id: row for row in index.survey_relatives(identity)}
    if identity not in by_id:
        raise UnknownConversationError(identity=identity)
    root = [*takewhile(admits, _climb(by_id, identity))][-1:] or [identity]
    children: dict[str, list[ConversationRow]] = {}
    for row in by_id.values():
        if row.parent is not None:
            children.setdefault(row.parent, []).append(row)
    return _build(index, _order(by_id[root[0]], children, admits))


def walk(family: Relative) -> Iterator[Relative]:
    """Yield a conversation and its descendants, parents before their forks."""
    pending = [family]
    while pending:
        relative = pending.pop()
        yield relative
        pending += reversed(relative.children)


def _climb(by_id: Mapping[str, ConversationRow], identity: str) -> Iterator[str]:
    """Yield an id and the ids of its ancestors; a damaged circle ends."""
    seen: set[str] = set()
    row = by_id.get(identity)
    while row is not None and row.id not in seen:
        seen.add(row.id)
        yield row.id
        row = None if row.parent is None else by_id.get(row.parent)


def _order(
    root: ConversationRow,
    children: Mapping[str, Sequence[ConversationRow]],
    admits: Callable[[str], bool],
) -> list[tuple[ConversationRow, int]]:
    """List a conversation and its descendants with their depths, parents first."""
    order: list[tuple[ConversationRow, int]] = []
    pending, seen = [(root, 0)], {root.id}
    while pending:
        row, depth = pending.pop()
        order.append((row, depth))
        for child in children.get(row.id, ()):
            if child.id not in seen and admits(child.id):
                seen.add(child.id)
                pending.append((child, depth + 1))
    return order


def _build(index: Index, order: Sequence[tuple[ConversationRow, int]]) -> Relative:
    """Build a tree without recursion: a chain of forks can be long."""
    forks = [row.id for row, depth in order if depth]
    own = {each.id: each.messages for each in (index.read_messages(forks) if forks else ())}
    below: dict[str | None, list[Relative]] = {}
    relative = None
    for row, depth in reversed(order):
        messages = own.get(row.id)  # missing if it was deleted
        first = messages[0] if messages else None
        children = sorted(below.pop(row.id, ()), key=lambda each: (each.row.created, each.row.id))
        relative = Relative(
            row=row,
            depth=depth,
            shared=_find_shared(row, messages),
            own_role=first.role if first else "",
            own_words=compose_first_words(each.text for each in (messages or ())[:1]),
            children=tuple(children),
        )
        below.setdefault(row.parent, []).append(relative)
    assert relative is not None
    return relative


def _find_shared(row: ConversationRow, own: Sequence[IndexedMessage] | None) -> int | None:
    if own is None:
        return None
    return own[0].index if own else row.canisters


def count_shared(first: Sequence[str], second: Sequence[str]) -> int:
    """Count the leading messages that two conversations share, by the messages' ids."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
