"""Families of forks as trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.stores.talks import exchange, fork, save
from vibe_llms.conversations import MemoryStore
from vibe_llms.conversations.index.result_rows import ConversationRow
from vibe_llms.conversations.lineage.exporting import export_family
from vibe_llms.conversations.lineage.families import survey_family, walk
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.exceptions import UnknownConversationError


class ListedIndex:
    """Index of given rows, without messages."""

    def __init__(self, *rows: ConversationRow) -> None:
        self._rows = rows

    def survey_relatives(self, _: str) -> list[ConversationRow]:
        return list(self._rows)

    def read_messages(self, _: Any) -> list[Any]:
        return []


def test_each_relative_leads_to_the_same_tree() -> None:
    store = MemoryStore()
    root = save(store, [*exchange("one"), *exchange("two")])
    left = fork(store, root, exchange("three"), at=2)
    right = fork(store, root, exchange("four"), at=4)
    low = fork(store, left, [], at=3)
    save(store, exchange("a stranger"))
    tree = survey_family(store.index, low)
    assert tree == survey_family(store.index, root)
    found = [(each.row.id, each.depth, each.shared, each.own_words) for each in walk(tree)]
    assert found == [
        (root, 0, None, ""),
        (left, 1, 2, "three"),
        (low, 2, 3, ""),
        (right, 1, 4, "four"),
    ]
    with pytest.raises(UnknownConversationError):
        survey_family(store.index, "unknown")


def test_fork_points_are_those_of_the_index_of_files(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    root = save(store, [*exchange("one"), *exchange("two")])
    left = fork(store, root, exchange("three"), at=2)
    low = fork(store, left, exchange("four"), at=3)
    found = [(each.row.id, each.shared) for each in walk(survey_family(store.index, root))]
    assert found == [(root, None), (left, 2), (low, 3)]
    family = export_family(survey_family(store.index, low))
    assert [(each["own_role"], each["own_words"]) for each in family[1:]] == [
        ("user", "three"),
        ("user", "four"),
    ]


def test_the_index_of_files_knows_the_relatives_of_a_fork_whose_parent_was_deleted(
    tmp_path: Path,
) -> None:
    store = DirectoryStore(tmp_path)
    root = save(store, [*exchange("one"), *exchange("two")])
    left = fork(store, root, exchange("three"), at=2)
    low = fork(store, left, exchange("four"), at=3)
    save(store, exchange("a stranger"))
    assert {row.id for row in store.index.survey_relatives(low)} == {root, left, low}
    store.delete(left)
    found = [(each.row.id, each.shared) for each in walk(survey_family(store.index, low))]
    assert found == [(root, None), (low, 2)]
    assert store.index.survey_relatives("unknown") == []


def test_a_conversation_that_is_not_admitted_is_left_out_with_its_forks() -> None:
    store = MemoryStore()
    root = save(store, exchange("one"))
    left = fork(store, root, exchange("two"), at=2)
    low = fork(store, left, exchange("three"), at=2)
    right = fork(store, root, exchange("four"), at=2)

    def list_ids(identity: str, *admitted: str) -> list[str]:
        family = survey_family(store.index, identity, admits=lambda each: each in admitted)
        return [each.row.id for each in walk(family)]

    assert list_ids(root, root, low, right) == [root, right]
    assert list_ids(low, root, low, right) == [low]


def test_a_deleted_parent_makes_its_forks_roots() -> None:
    store = MemoryStore()
    root = save(store, exchange("one"))
    child = fork(store, root, exchange("two"), at=2)
    store.delete(root)
    assert survey_family(store.index, child).row.id == child


def test_a_long_chain_does_not_recurse() -> None:
    now = ConversationMetadata().created
    first = ConversationRow("c0", None, now, now, 0, None, "", (), None)
    rows = [first, *(first._replace(id=f"c{n}", parent=f"c{n - 1}") for n in range(1, 3_000))]
    tree = survey_family(ListedIndex(*rows), "c2999")
    assert sum(1 for _ in walk(tree)) == 3_000
    circle = ListedIndex(rows[1]._replace(parent="c2"), rows[2])
    assert sum(1 for _ in walk(survey_family(circle, "c1"))) == 2
