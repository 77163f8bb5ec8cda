"""Pages of conversations: the same as one list, and no more is listed than a page wants."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.agents.conversations import LocalConversations
from vibe_llms.agents.local import LocalRuns
from vibe_llms.conversations.index.reading_index import ReadingIndex
from vibe_llms.conversations.index.result_rows import ConversationRow
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.conversations.tags import OWNER_TAG
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.limits import Limits
from vibe_llms.retrieval import meaning
from vibe_llms.retrieval.ranking import MeaningHit


class CountingIndex(ReadingIndex):
    """Notes how many were listed."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.listed: list[int] = []

    def survey(self, *, limit: int | None = 50, parts: bool = False) -> list[ConversationRow]:
        rows = super().survey(limit=limit, parts=parts)
        self.listed.append(len(rows))
        return rows


def keep(owners: list[str]) -> tuple[LocalConversations, CountingIndex]:
    """Keeps a conversation for each of these."""
    store = MemoryStore()
    for number, owner in enumerate(owners):
        tags = (OWNER_TAG + owner,) if owner else ()
        store.create(f"c{number}", ConversationMetadata(tags=tags))
    index = CountingIndex(store)
    application = cast(Any, SimpleNamespace(configuration=SimpleNamespace(limits=Limits())))
    runs = LocalRuns(store, application, is_owner=True, conversation_index=index)
    return LocalConversations(runs), index


@pytest.mark.slow
@given(
    owners=st.lists(st.sampled_from(["ann", "bob", ""]), max_size=20),
    limit=st.integers(1, 5),
    subject=st.sampled_from(["ann", "bob", ""]),
)
async def test_all_pages_are_the_list(owners: list[str], limit: int, subject: str) -> None:
    conversations, index = keep(owners)
    wanted = [
        row.id for row in index.survey(limit=None) if subject in ("", owners[int(row.id[1:])])
    ]
    found, after, has_more = list[str](), "", True
    while has_more:
        page, has_more = await conversations.survey(limit=limit, after=after, subject=subject)
        assert len(page) == limit or not has_more
        found += [row.id for row in page]
        after = found[-1] if found else ""
    assert found == wanted


async def test_no_more_is_listed_than_a_page_wants() -> None:
    conversations, index = keep([""] * 200)
    page, has_more = await conversations.survey(limit=10)
    assert (len(page), has_more, index.listed) == (10, True, [11])
    await conversations.survey(limit=10, after=page[-1].id)
    assert index.listed == [11, 11, 44]


class FakeMeanings:
    """Finds a message of each conversation, in their order."""

    def __init__(self, index: CountingIndex, application: object) -> None:
        self._names = [f"c{number}" for number in range(len(index.survey(limit=None)))]

    async def __aenter__(self) -> FakeMeanings:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def update(self) -> int:
        return 0

    async def search(self, query: str, *, limit: int, update: bool) -> list[MeaningHit]:
        found = [
            MeaningHit(
                collection="conversations",
                document=name,
                item="",
                position=0,
                role="user",
                timestamp=None,
                heading="",
                text=query,
                score=1.0,
                similarity=None,
            )
            for name in self._names
        ]
        return found[:limit]


async def test_hits_behind_those_of_others_are_found_by_meaning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meaning, "MeaningIndex", FakeMeanings)
    conversations, _ = keep(["ann"] * 50 + ["bob"] * 3)

    async def search(subject: str, limit: int) -> tuple[list[str], bool]:
        hits, has_more, _ = await conversations.search_meaning("x", limit=limit, subject=subject)
        return [hit.id for hit in hits], has_more

    assert await search("bob", 2) == (["c50", "c51"], True)
    assert await search("bob", 3) == (["c50", "c51", "c52"], False)
    assert await search("ann", 2) == (["c0", "c1"], True)
    assert await search("ann", 50) == ([f"c{number}" for number in range(50)], False)


@pytest.mark.parametrize("after", ["nobody", "c0"])
async def test_what_is_not_there_or_not_theirs_cannot_be_gone_on_from(after: str) -> None:
    conversations, _ = keep(["ann"] * 30)
    with pytest.raises(RequestError, match="start a new one"):
        await conversations.survey(limit=1, after=after, subject="bob")
