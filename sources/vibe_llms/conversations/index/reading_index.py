"""Lists and search for any store. Conversations are read each time, without a cache."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress

from vibe_llms.conversations.index.database import KEY_SHIFT, open_memory
from vibe_llms.conversations.index.extraction import CanisterEntry, compose_first_words, read_entry
from vibe_llms.conversations.index.interfaces import DEFAULT_LIMIT
from vibe_llms.conversations.index.messages import IndexedConversation, IndexedMessage
from vibe_llms.conversations.index.questions import (
    Lineage,
    gather_relatives,
    search_canisters,
    snapshot,
)
from vibe_llms.conversations.index.result_rows import ConversationRow, SearchHit
from vibe_llms.conversations.index.tokenization import compose_match, restore_text
from vibe_llms.conversations.lookup import survey_dated
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import is_part
from vibe_llms.exceptions import StoreError


class ReadingIndex:
    """Index through the protocol of stores; see :class:`.Index`.

    A list reads the metadata of all conversations, and the history of the shown conversations. A
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

    def describe(self, identities: Iterable[str]) -> list[ConversationRow]:
        """Return the rows of some conversations. Unknown and damaged ones are left out."""
        rows = []
        for identity in identities:
            with suppress(StoreError):
                rows.append(self._describe(identity, self._store.read_metadata(identity)))
        return rows

    def survey_relatives(self, identity: str) -> list[ConversationRow]:
        """Return a conversation, its ancestors, and all forks of these; empty if it is unknown."""
        known = {each: metadata for _, each, metadata in survey_dated(self._store)}
        parents = {
            each: metadata.parent.identity if metadata.parent else None
            for each, metadata in known.items()
        }
        return [self._describe(each, known[each]) for each in gather_relatives(parents, identity)]

    def _describe(self, identity: str, metadata: ConversationMetadata) -> ConversationRow:
        entries = self._read_entries(identity)
        user_texts = (
            compose_first_words([restore_text(each.text)])
            for each in entries
            if each.role == "user"
        )
        used_models = (each.model for each in reversed(entries) if each.model)
        return ConversationRow(
            id=identity,
            name=metadata.name,
            created=metadata.created,
            updated=metadata.updated,
            canisters=len(entries),
            model=metadata.model or next(used_models, None),
            first_words=next(filter(None, user_texts), ""),
            tags=metadata.tags,
            parent=metadata.parent.identity if metadata.parent else None,
        )

    def _read_entries(self, identity: str) -> list[CanisterEntry]:
        from vibe_llms.messages.codec.canister_lines import encode_canisters

        try:
            canisters = self._store.read(identity, tolerant=True).canisters
        except StoreError:
            return []
        # Read from their stored form, so that the results equal those of the index of files.
        lines = encode_canisters(canisters).splitlines()
        return [entry for entry in map(read_entry, lines) if entry is not None]

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
        searched = (each for each in dated if parts or not is_part(each[2].tags))
        # Oldest first: the search expects higher rows for newer conversations.
        found = sorted(searched, key=lambda each: each[:2])
        histories = {identity: self._read_entries(identity) for _, identity, _ in found}
        with open_memory() as connection:
            for key, (_, identity, metadata) in enumerate(found, 1):
                parent = metadata.parent.identity if metadata.parent else None
                entries = histories[identity]
                shared = _count_shared(histories.get(parent or "", []), entries)
                connection.execute(
                    "INSERT INTO conversations (key, id, shard, name, parent, parent_canisters,"
                    " inode, size, changed, indexed, tail, canisters, first_words, first_position,"
                    " description, created, updated, tags, merged_bytes)"
                    " VALUES (?, ?, '', ?, ?, ?, 0, 0, 0, 0, 0, 0, '', 0, '', 0, 0, '', 0)",
                    (key, identity, metadata.name, parent if shared else None, shared),
                )
                # Without the part shared with its parent, which is found there.
                _write_entries(connection, key, entries[shared:])
            with snapshot(connection):
                return search_canisters(connection, match, limit, Lineage(connection, ""))

    def survey_stamps(self) -> dict[str, str]:
        """Return a stamp for each conversation, by id. A stamp changes with the messages."""
        return {identity: str(updated) for updated, identity, _ in survey_dated(self._store)}

    def read_messages(self, identities: Iterable[str]) -> list[IndexedConversation]:
        """Return the messages of some conversations with their texts, without inherited messages.

        Deleted conversations are left out.
        """
        return list(filter(None, map(self._read_own, identities)))

    def _read_own(self, identity: str) -> IndexedConversation | None:
        try:
            metadata = self._store.read_metadata(identity)
        except StoreError:
            return None
        entries = self._read_entries(identity)
        parent = metadata.parent.identity if metadata.parent else ""
        shared = _count_shared(self._read_entries(parent), entries) if parent else 0
        messages = tuple(
            IndexedMessage(each.id, index, each.role, each.timestamp, restore_text(each.text))
            for index, each in enumerate(entries[shared:], shared)
        )
        return IndexedConversation(identity, is_part(metadata.tags), messages)


def _count_shared(parents: list[CanisterEntry], entries: list[CanisterEntry]) -> int:
    """Count the canisters that a fork shares with its parent."""
    count = 0
    for theirs, ours in zip(parents, entries, strict=False):
        if theirs.id != ours.id:
            break
        count += 1
    return count


def _write_entries(
    connection: sqlite3.Connection, key: int, entries: Iterable[CanisterEntry]
) -> None:
    for row, each in enumerate(entries, key << KEY_SHIFT):
        connection.execute(
            "INSERT INTO places VALUES (?, ?, ?, ?)",
            (row, each.id, each.role, each.timestamp),
        )
        connection.execute(
            "INSERT INTO texts (rowid, text, role) VALUES (?, ?, ?)", (row, each.text, each.role)
        )
