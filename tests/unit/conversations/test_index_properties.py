"""That the index says what a naive reading of everything would say."""

from __future__ import annotations

import re
import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
)

from support.quality.properties import examples
from support.stores.ages import age_shards
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.index import ConversationIndex
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.migration import migrate
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of

TEXTS = st.text(alphabet="ab é-*\"_日本🎉\n'", max_size=12)


def cut(text: str) -> list[str]:
    """Cuts a text into words, in the plainest way that can be thought of."""
    plain = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return re.findall(r"[日本🎉]|[a-z]+", plain.lower())


def holds(text: str, word: str) -> bool:
    words, wanted = cut(text), cut(word)
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words) - len(wanted) + 1))


class IndexMachine(RuleBasedStateMachine):
    """Does to a store whatever can be done to one, and asks the index now and then."""

    conversations = Bundle("conversations")

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._root = Path(self._folder.name)
        self._store = DirectoryStore(self._root)
        self._index = ConversationIndex(self._root / "conversations", self._root / "index.sqlite")
        self._count = 0

    def teardown(self) -> None:
        self._folder.cleanup()

    def _next(self) -> str:
        self._count += 1
        return f"c{self._count}"

    @rule(target=conversations)
    def create(self) -> str:
        identity = self._next()
        self._store.create(identity, ConversationMetadata())
        return identity

    @rule(identity=conversations, texts=st.lists(TEXTS, min_size=1, max_size=3))
    def append(self, identity: str, texts: list[str]) -> None:
        self._store.append(identity, [UserCanister(text) for text in texts])

    @rule(target=conversations, identity=conversations, cut_off=st.none() | st.integers(0, 9))
    def fork(self, identity: str, cut_off: int | None) -> str:
        if cut_off is not None:
            cut_off = min(cut_off, len(self._store.read(identity).canisters))
        return self._store.fork(identity, from_index=cut_off, child=self._next())

    @rule(identity=consumes(conversations))
    def delete(self, identity: str) -> None:
        self._store.delete(identity)

    @rule(identity=conversations, name=st.text(alphabet="xyz", min_size=1, max_size=4))
    def rename(self, identity: str, name: str) -> None:
        self._store.update_metadata(identity, name=name)

    @rule(target=conversations, identity=consumes(conversations))
    def rename_folder_of_a_leaf(self, identity: str) -> object:
        """Someone moves a folder by hand; only where no fork hangs on it."""
        parents = [self._store.read_metadata(other).parent for other in self._store.survey()]
        if any(parent is not None and parent.identity == identity for parent in parents):
            return multiple(identity)
        other = self._next()
        Path(self._store.locate(identity)).rename(self._root / "conversations" / other)
        return other

    @rule()
    def time_passes(self) -> None:
        """Until the times of all folders are final, and every writer sets them again."""
        age_shards(self._store)

    @rule(identity=conversations)
    def move_to_the_former_layout(self, identity: str) -> None:
        folder = Path(self._store.locate(identity))
        folder.rename(self._root / "conversations" / identity)

    @rule()
    def migrate(self) -> None:
        done = migrate(self._store)
        assert (done.busy, done.duplicates) == ((), ())

    @rule()
    def list_equals_what_is_newest(self) -> None:
        """A short list compares only what may have changed."""
        rows = {row.id: (row.canisters, row.updated) for row in self._index.survey(limit=10_000)}
        expected = {}
        for identity in self._store.survey():
            history = self._store.read(identity)
            expected[identity] = (len(history.canisters), history.metadata.updated)
        assert rows == expected

    @rule()
    def throw_the_index_away(self) -> None:
        for path in self._root.glob("index.sqlite*"):
            path.unlink()

    @rule()
    def list_equals_naive_reading(self) -> None:
        rows = {
            row.id: (row.name, row.canisters, row.first_words, row.updated, row.created)
            for row in self._index.survey(limit=None)
        }
        expected = {}
        for identity in self._store.survey():
            history = self._store.read(identity)
            texts = [" ".join(text_of(item).split()) for item in history.canisters]
            about = history.metadata
            expected[identity] = (
                about.name,
                len(texts),
                next(filter(None, texts), ""),
                about.updated,
                about.created,
            )
        assert rows == expected

    @rule(query=st.sampled_from(["a", "ab", "aé", "日", "本日", "🎉", "b🎉", "a-b"]))
    def search_equals_naive_reading(self, query: str) -> None:
        hits = {(hit.id, hit.index) for hit in self._index.search(query, limit=10_000)}
        expected = set()
        for identity in self._store.survey():
            canisters = self._store.read(identity).canisters
            own = self._store.examine(identity).canisters
            for at in range(len(canisters) - own, len(canisters)):
                if holds(text_of(canisters[at]), query):
                    expected.add((identity, at))
        assert hits == expected

    @invariant()
    def nothing_is_left_open(self) -> None:
        assert not list(self._root.glob("index.sqlite-wal"))


IndexMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestIndexEqualsNaiveReading = IndexMachine.TestCase


@pytest.mark.slow
@examples(150)
@given(query=st.text(max_size=40) | st.text(alphabet="\"*-+^:{}()NEARORAND 'é日🎉\0", max_size=20))
def test_takes_any_query(query: str) -> None:
    """Nothing that a person can type is an error of syntax, and every hit holds marks."""
    with tempfile.TemporaryDirectory() as folder:
        store = DirectoryStore(folder)
        store.create("one", ConversationMetadata())
        store.append("one", [UserCanister("NEAR AND OR é日🎉 " + query.replace("\ud800", ""))])
        index = ConversationIndex(Path(folder, "conversations"), Path(folder, "index.sqlite"))

        hits = index.search(query)

    assert all(hit.marks for hit in hits)
