"""A plugin's store is used as the protocol says, whatever stands between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import attrs
import pytest

from vibe_llms.conversations import ConversationStore, MemoryStore
from vibe_llms.conversations.index import ReadingIndex
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.proof import collect_content, plan_collection
from vibe_llms.conversations.stores.interfaces import LeftBytes
from vibe_llms.exceptions import PluginError, StoreError
from vibe_llms.plugins.plugged import PluggedStore
from vibe_llms.runs.copying import copy_store

STRAY = LeftBytes("s3://shelf", "a" * 64, 3)


@attrs.define
class Shelves:
    """Places outside a store's database."""

    address: str = "s3://shelf"
    strays: list[LeftBytes] = attrs.field(factory=list)
    brought: list[str] = attrs.field(factory=list)

    def bring(self, content_id: str) -> None:
        self.brought.append(content_id)

    def survey_strays(self, *, grace_seconds: float) -> Iterator[LeftBytes]:
        yield from self.strays

    def remove_stray(self, stray: LeftBytes) -> None:
        self.strays.remove(stray)


class Quick(ReadingIndex):
    """The index of a database."""

    def survey(self, **_: Any) -> Any:
        raise ValueError("no table")


class Vault(MemoryStore):
    """A plugin's store that has all that a store can have."""

    def __init__(self, shelves: Shelves | None = None) -> None:
        super().__init__()
        self.shelves = Shelves() if shelves is None else shelves

    @property
    def index(self) -> Quick:
        return Quick(self)

    @property
    def content_backends(self) -> Shelves:
        return self.shelves

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vault)

    __hash__ = None  # type: ignore[assignment]


def plug(store: ConversationStore) -> ConversationStore:
    return cast("ConversationStore", PluggedStore(store, "bank", "store 'vault'", "Fix it."))


def test_its_own_index_is_asked_and_blamed() -> None:
    """Without one, all conversations are read."""
    bare = plug(MemoryStore())
    bare.create("a", ConversationMetadata())

    with pytest.raises(PluginError, match=r"survey raised ValueError: no table"):
        plug(Vault()).index.survey()
    assert [row.id for row in bare.index.survey()] == ["a"]


def test_bytes_left_over_in_its_backends_are_found_and_removed() -> None:
    """A store without backends has none."""
    shelves = Shelves(strays=[STRAY])
    store = plug(Vault(shelves))

    plan = plan_collection(store, grace_seconds=0, strays=True)

    assert plan.strays == (STRAY,)
    assert collect_content(store, plan, grace_seconds=0) == plan
    assert shelves.strays == []
    assert plan_collection(plug(MemoryStore()), strays=True).strays == ()


def test_content_is_moved_between_its_backends() -> None:
    """A copy of a store into itself moves the content to the backend of the second."""
    source, target = Vault(), Vault(Shelves("s3://other"))
    source.contents = target.contents
    content_id = source.contents.add(b"bytes", mime_type="text/plain")

    copy_store(plug(source), plug(target))

    assert target.shelves.brought == [content_id]
    assert source.shelves.brought == []
    with pytest.raises(StoreError, match="into itself"):
        copy_store(plug(source), plug(Vault()))
