"""Random histories of two stores, held against a model too simple to be wrong."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from support.stores.disks import HastyDisk
from vibe_llms.conversations import DirectoryStore, MemoryStore, verify
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.messages.canisters import AnyCanister, UserCanister


class StoresMachine(RuleBasedStateMachine):
    """Two stores and a dictionary of plain lists go through the same."""

    identities = Bundle("identities")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.memory = MemoryStore()
        self.said: dict[str, list[AnyCanister]] = {}
        self.names: dict[str, str | None] = {}
        self.count = 0
        self.reopen()

    @property
    def stores(self) -> tuple[DirectoryStore, MemoryStore]:
        return self.store, self.memory

    def invent(self) -> str:
        self.count += 1
        return f"c{self.count}"

    @initialize()
    def reopen(self) -> None:
        self.store = DirectoryStore(self.directory, disk=HastyDisk())

    @rule(target=identities, name=st.none() | st.text(st.characters(codec="utf-8")))
    def create(self, name: str | None) -> str:
        identity = self.invent()
        for store in self.stores:
            store.create(identity, ConversationMetadata(name=name))
        self.said[identity], self.names[identity] = [], name
        return identity

    @rule(
        identity=identities,
        texts=st.lists(st.text(st.characters(codec="utf-8")), max_size=3),
        known=st.booleans(),
    )
    def append(self, identity: str, texts: list[str], known: bool) -> None:
        canisters = [UserCanister(text) for text in texts]
        for store in self.stores:
            after = store.read(identity).position if known else None
            store.append(identity, canisters, after=after)
        self.said[identity] += canisters

    @rule(target=identities, identity=identities)
    def fork_at_the_end(self, identity: str) -> str:
        child = self.invent()
        for store in self.stores:
            assert store.fork(identity, child=child) == child
        self.said[child], self.names[child] = list(self.said[identity]), self.names[identity]
        return child

    @rule(target=identities, identity=identities, data=st.data())
    def fork_within(self, identity: str, data: st.DataObject) -> str:
        index = data.draw(st.integers(0, len(self.said[identity])))
        child = self.invent()
        for store in self.stores:
            store.fork(identity, from_index=index, child=child)
        self.said[child] = self.said[identity][:index]
        self.names[child] = self.names[identity]
        return child

    @rule(target=identities, identity=consumes(identities))
    def delete(self, identity: str) -> object:
        for store in self.stores:
            store.delete(identity)
        del self.said[identity], self.names[identity]
        return multiple()

    @rule(identity=identities, name=st.none() | st.text(st.characters(codec="utf-8")))
    def rename(self, identity: str, name: str | None) -> None:
        for store in self.stores:
            store.update_metadata(identity, name=name)
        self.names[identity] = name

    @rule(identity=identities, rest=st.binary(min_size=1).filter(lambda b: b"\n" not in b))
    def tear(self, identity: str, rest: bytes) -> None:
        """A writer was killed in the middle of a line."""
        with Path(self.stores[0].locate(identity), "messages.jsonl").open("ab") as file:
            file.write(rest)

    @rule(identity=identities)
    def look(self, identity: str) -> None:
        for store in self.stores:
            assert list(store.read(identity).canisters) == self.said[identity]
            assert store.read_metadata(identity).name == self.names[identity]

    @rule()
    def prove(self) -> None:
        for store in self.stores:
            findings = verify(store).findings
            assert all("tore" in finding.message for finding in findings)

    @invariant()
    def both_know_the_same_conversations(self) -> None:
        for store in self.stores:
            assert set(store.survey()) == set(self.said)

    def teardown(self) -> None:
        for identity in self.said:
            self.look(identity)
        shutil.rmtree(self.directory)


StoresMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestStoresAgree = StoresMachine.TestCase
