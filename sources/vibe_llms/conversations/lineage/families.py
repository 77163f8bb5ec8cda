"""Families of conversations: the forks of a conversation and of its ancestors, as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from vibe_llms.conversations.index.result_rows import ConversationRow
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Relative:
    """One conversation of a family.

    Attributes:
        row: Its id, name, times and size.
        depth: Number of its ancestors.
        shared: Number of leading messages that it shares with its parent; ``None`` if unknown, or
            without a parent.
        children: Its forks, oldest first.
    """

    row: ConversationRow
    depth: int
    shared: int | None
    children: tuple[Relative, ...]


def survey_family(
    store: ConversationStore, rows: Iterable[ConversationRow], identity: str
) -> Relative:
    """Return the family of a conversation, from its oldest ancestor on.

    Args:
        store: The store, from which the fork points are read.
        rows: All conversations of the store, as its index lists them.
        identity: Id of any conversation of the family.

    Raises:
        UnknownConversationError: The conversation is not listed.
    """
    by_id = {row.id: row for row in rows}
    if identity not in by_id:
        raise UnknownConversationError(identity=identity)
    root = list(_climb(by_id, identity))[-1]
    children: dict[str, list[ConversationRow]] = {}
    for row in by_id.values():
        if row.parent is not None:
            children.setdefault(row.parent, []).append(row)
    return _build(store, by_id[root], children)


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


def _build(
    store: ConversationStore,
    root: ConversationRow,
    children: Mapping[str, Sequence[ConversationRow]],
) -> Relative:
    """Build a tree without recursion: a chain of forks can be long."""
    order: list[tuple[ConversationRow, int]] = []
    pending, seen = [(root, 0)], {root.id}
    while pending:
        row, depth = pending.pop()
        order.append((row, depth))
        for child in children.get(row.id, ()):
            if child.id not in seen:
                seen.add(child.id)
                pending.append((child, depth + 1))
    ids: dict[str, list[str] | None] = {}
    relatives: dict[str, Relative] = {}
    for row, depth in reversed(order):
        found = [relatives[each.id] for each in children.get(row.id, ()) if each.id in relatives]
        below = sorted(found, key=lambda each: (each.row.created, each.row.id))
        shared = None
        if depth and row.parent is not None:
            ones, others = (_read_ids(store, ids, each) for each in (row.parent, row.id))
            shared = None if ones is None or others is None else count_shared(ones, others)
        relatives[row.id] = Relative(row=row, depth=depth, shared=shared, children=tuple(below))
    return relatives[root.id]


def _read_ids(
    store: ConversationStore, ids: dict[str, list[str] | None], identity: str
) -> list[str] | None:
    if identity not in ids:
        try:
            ids[identity] = [each.id for each in store.read(identity, tolerant=True).canisters]
        except StoreError:  # deleted, or unreadable
            ids[identity] = None
    return ids[identity]


def count_shared(first: Sequence[str], second: Sequence[str]) -> int:
    """Count the leading messages that two conversations share, by the messages' ids."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
