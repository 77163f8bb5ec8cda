"""Lists and search for any store, by reading its conversations, without a cache."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from vibe_llms.conversations.index.database import KEY_SHIFT, open_memory
from vibe_llms.conversations.index.extraction import CanisterEntry, compose_first_words, read_place
from vibe_llms.conversations.index.interfaces import DEFAULT_LIMIT
from vibe_llms.conversations.index.questions import Lineage, search_places, snapshot
from vibe_llms.conversations.index.result_rows import ConversationRow, SearchHit
from vibe_llms.conversations.index.tokenization import compose_match, restore_text
from vibe_llms.conversations.lookup import survey_dated
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import is_part
from vibe_llms.exceptions import StoreError


class ReadingIndex:
    """Index through the protocol of stores; see :class:`.Index`.

    A list reads the metadata of all conversations, and the history of those that it shows. A
    search reads every history. Damaged and deleted conversations are skipped.
    """

    def __init__(self, store: ConversationStore) -> None:
        self._store = store

    def survey(
        self, *, limit: int | None = DEFAULT_LIMIT, parts: bool = False
    ) -> list[ConversationRow]:
        """Return conversations, the newest message first."""
        found = [each for each in survey_dated(self._store) if parts or not is_part(each[2].tags)]
        dated = sorted(found, key=lambda each: (-each[0].timestamp(), each[1]))
        return [self._describe(identity, metadata) for _, identity, metadata in dated[:limit]]

    def _describe(self, identity: str, metadata: ConversationMetadata) -> ConversationRow:
        places = self._read_places(identity)
        said = (
            compose_first_words([restore_text(each.text)]) for each in places if each.role == "user"
        )
        used = (each.model for each in reversed(places) if each.model)
        return ConversationRow(
            id=identity,
            name=metadata.name,
            created=metadata.created,
            updated=metadata.updated,
            canisters=len(places),
            model=metadata.model or next(used, None),
            first_words=next(filter(None, said), ""),
            tags=metadata.tags,
            parent=metadata.parent.identity if metadata.parent else None,
        )

    def _read_places(self, identity: str) -> list[CanisterEntry]:
        from vibe_llms.messages.codec.canister_lines import encode_canisters

        try:
            canisters = self._store.read(identity, tolerant=True).canisters
        except StoreError:
            return []
        # Use their stored form, so that this finds the same as the index on the disk.
        lines = encode_canisters(canisters).splitlines()
        return [place for place in map(read_place, lines) if place is not None]

    def search(
        self,
        query: str,
        *,
        limit: int = DEFAULT_LIMIT,
        role: str | None = None,
        parts: bool = False,
    ) -> list[SearchHit]:
        """Return the canisters that contain all words of the query, the best match first."""
        match = compose_match(query, role)
        dated = survey_dated(self._store)
        kept = (each for each in dated if parts or not is_part(each[2].tags))
        # Oldest first: the search takes higher rows for newer conversations.
        found = sorted(kept, key=lambda each: each[:2])
        histories = {identity: self._read_places(identity) for _, identity, _ in found}
        with open_memory() as connection:
            for key, (_, identity, metadata) in enumerate(found, 1):
                parent = metadata.parent.identity if metadata.parent else None
                places = histories[identity]
                shared = _count_shared(histories.get(parent or "", []), places)
                connection.execute(
                    "INSERT INTO conversations (key, id, shard, name, parent, parent_canisters,"
                    " inode, size, changed, indexed, tail, canisters, first_words, first_position,"
                    " description, created, updated, tags, merged_bytes)"
                    " VALUES (?, ?, '', ?, ?, ?, 0, 0, 0, 0, 0, 0, '', 0, '', 0, 0, '', 0)",
                    (key, identity, metadata.name, parent if shared else None, shared),
                )
                # The part shared with its parent is found there.
                _write_places(connection, key, places[shared:])
            with snapshot(connection):
                return search_places(connection, match, limit, Lineage(connection, ""))


def _count_shared(parents: list[CanisterEntry], places: list[CanisterEntry]) -> int:
    """Count the canisters that a fork shares with its parent."""
    count = 0
    for theirs, ours in zip(parents, places, strict=False):
        if theirs.id != ours.id:
            break
        count += 1
    return count


def _write_places(
    connection: sqlite3.Connection, key: int, places: Iterable[CanisterEntry]
) -> None:
    for place, each in enumerate(places, key << KEY_SHIFT):
        connection.execute(
            "INSERT INTO places VALUES (?, ?, ?, ?)",
            (place, each.id, each.role, each.timestamp),
        )
        connection.execute(
            "INSERT INTO texts (rowid, text, role) VALUES (?, ?, ?)", (place, each.text, each.role)
        )
