"""Any store is listed and searched by reading it, and says what the index of the files says."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.conversations import DirectoryStore, MemoryStore
from vibe_llms.conversations.index import ConversationIndex, ReadingIndex
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.exceptions import CorruptionError, LimitError, StoreError, UnknownNameError
from vibe_llms.messages.canisters import AssistantCanister, UserCanister

WORDS = st.sampled_from(["fox", "Füchse", "狐狸が走る", "red fox", "two\nlines", "", '"quoted"'])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(0, 9), WORDS),
        st.tuples(st.just("answer"), st.integers(0, 9), WORDS),
        st.tuples(st.just("fork"), st.integers(0, 9), st.integers(0, 4)),
        st.tuples(st.just("delete"), st.integers(0, 9), st.none()),
        st.tuples(st.just("name"), st.integers(0, 9), WORDS),
    ),
    max_size=14,
)


def perform(store: DirectoryStore, steps: list[tuple[str, int, Any]]) -> None:
    """Says, forks, deletes and names."""
    store.create("c0", ConversationMetadata())
    for number, (deed, which, value) in enumerate(steps, 1):
        present = sorted(store.survey())
        if not present:
            return
        identity = present[which % len(present)]
        if deed == "say":
            store.append(identity, [UserCanister(value)])
        elif deed == "answer":
            store.append(identity, [AssistantCanister(value)])
        elif deed == "name":
            store.update_metadata(identity, name=value or None, tags=["t", "u"])
        elif deed == "delete":
            store.delete(identity)
        else:
            count = len(store.read(identity).canisters)
            store.fork(identity, from_index=min(value, count), child=f"c{number}")


@pytest.mark.slow
@given(STEPS)
def test_it_answers_as_the_index_of_the_files_does(steps: list[tuple[str, int, Any]]) -> None:
    """Whatever was said, forked, deleted and named: the same lists, the same hits and words."""
    with tempfile.TemporaryDirectory() as folder:
        store = DirectoryStore(folder)
        perform(store, steps)
        files = ConversationIndex(Path(folder, "conversations"), Path(folder, "index.sqlite"))
        reading = ReadingIndex(store)

        assert reading.survey(limit=None) == files.survey(limit=None)
        for query in ("fox", "fuchse", "走る", '"red fox"', "quo*", "absent", ""):
            found, known = reading.search(query), files.search(query)
            assert {hit[:-2] for hit in found} == {hit[:-2] for hit in known}
            assert {hit.snippet for hit in found} == {hit.snippet for hit in known}


def test_what_is_wrong_with_a_question_is_told_as_by_the_index() -> None:
    """A slip in a role, and too many words."""
    reading = ReadingIndex(MemoryStore())

    with pytest.raises(UnknownNameError, match="usr"):
        reading.search("fox", role="usr")
    with pytest.raises(LimitError, match="64"):
        reading.search("fox " * 65)


class Torn(MemoryStore):
    """Has one conversation whose metadata do not read, and one whose history does not."""

    def read_metadata(self, identity: str) -> ConversationMetadata:
        if identity == "torn":
            raise CorruptionError(path=identity, detail="It is torn.")
        return super().read_metadata(identity)

    def read(self, identity: str, *, tolerant: bool = False) -> Any:
        if identity == "blank":
            raise StoreError(detail="It is blank.")
        return super().read(identity, tolerant=tolerant)


def test_what_is_damaged_hides_nothing_else() -> None:
    """It is left out, or listed as empty; where nothing reads at all, that is an error."""
    store = Torn()
    for identity in ("torn", "blank", "whole"):
        store.create(identity, ConversationMetadata())
        store.append(identity, [UserCanister("a fox")])
    reading = ReadingIndex(store)

    assert {row.id: row.canisters for row in reading.survey()} == {"blank": 0, "whole": 1}
    assert [hit.id for hit in reading.search("fox")] == ["whole"]
    store.delete("blank")
    store.delete("whole")
    with pytest.raises(CorruptionError, match="torn"):
        reading.survey()


def test_a_store_that_lists_by_itself_is_asked() -> None:
    """A database need not be read through."""

    class Quick(MemoryStore):
        index = ReadingIndex(MemoryStore())

    assert Quick().index is Quick.index
    assert isinstance(MemoryStore().index, ReadingIndex)


def test_the_newest_come_first_up_to_the_limit() -> None:
    """Only the histories that are shown are read."""
    reads: list[str] = []

    class Counting(MemoryStore):
        def read(self, identity: str, *, tolerant: bool = False) -> Any:
            reads.append(identity)
            return super().read(identity, tolerant=tolerant)

    store = Counting()
    began = ConversationMetadata().created
    for number in range(5):
        created = began - timedelta(days=number)
        store.create(f"c{number}", ConversationMetadata(created=created))

    assert [row.id for row in ReadingIndex(store).survey(limit=2)] == ["c0", "c1"]
    assert reads == ["c0", "c1"]
