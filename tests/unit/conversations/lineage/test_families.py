"""Families of forks as trees."""

from __future__ import annotations

import pytest

from support.stores.talks import exchange, fork, save
from vibe_llms.conversations import MemoryStore
from vibe_llms.conversations.index.result_rows import ConversationRow
from vibe_llms.conversations.lineage.families import survey_family, walk
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.exceptions import UnknownConversationError


def survey(store: MemoryStore) -> list[ConversationRow]:
    return store.index.survey(limit=None, parts=True)


def test_each_relative_leads_to_the_same_tree() -> None:
    store = MemoryStore()
    root = save(store, [*exchange("one"), *exchange("two")])
    left = fork(store, root, exchange("three"), at=2)
    right = fork(store, root, exchange("four"), at=4)
    low = fork(store, left, [], at=3)
    save(store, exchange("a stranger"))
    tree = survey_family(store, survey(store), low)
    assert tree == survey_family(store, survey(store), root)
    assert [(each.row.id, each.depth, each.shared) for each in walk(tree)] == [
        (root, 0, None),
        (left, 1, 2),
        (low, 2, 3),
        (right, 1, 4),
    ]
    with pytest.raises(UnknownConversationError):
        survey_family(store, survey(store), "unknown")


def test_a_deleted_parent_makes_its_forks_roots() -> None:
    store = MemoryStore()
    root = save(store, exchange("one"))
    child = fork(store, root, exchange("two"), at=2)
    store.delete(root)
    assert survey_family(store, survey(store), child).row.id == child


def test_a_long_chain_does_not_recurse() -> None:
    store = MemoryStore()
    now = ConversationMetadata().created
    first = ConversationRow("c0", None, now, now, 0, None, "", (), None)
    rows = [first, *(first._replace(id=f"c{n}", parent=f"c{n - 1}") for n in range(1, 3_000))]
    tree = survey_family(store, rows, "c2999")
    assert sum(1 for _ in walk(tree)) == 3_000
    circle = [rows[1]._replace(parent="c2"), rows[2]]
    assert sum(1 for _ in walk(survey_family(store, circle, "c1"))) == 2
