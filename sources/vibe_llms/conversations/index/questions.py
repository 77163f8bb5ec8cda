"""Queries of the database, to be run when it is up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from vibe_llms.conversations.index.database import KEY_SHIFT, transaction
from vibe_llms.conversations.index.result_rows import ConversationRow, SearchHit
from vibe_llms.conversations.index.tokenization import MARK_END, MARK_START, restore_text
from vibe_llms.conversations.stores.sharding import compose_folder
from vibe_llms.conversations.tags import PART_TAG

SNIPPET_WORDS = 24
RANKED_LIMIT = 5000

_PART = f'%"{PART_TAG}%'
"""Pattern of JSON tags that mark a conversation as a part of another one."""

_POSITIONS = (1 << KEY_SHIFT) - 1


class Ancestry(NamedTuple):
    """Inherited part of a conversation.

    Attributes:
        inherited: Number of inherited canisters.
        first_words: The user's first words, possibly inherited.
        first_index: Index of their canister, from the beginning of the history.
    """

    inherited: int
    first_words: str
    first_index: int


class _Link(NamedTuple):
    key: int
    first_words: str
    first_position: int
    parent: str | None
    parent_canisters: int | None
    parent_bytes: int | None
    inherited: int | None


class Lineage:
    """Numbers of canisters that conversations inherit from their parents.

    Inherited values are computed on demand, and cached for the rows of one result.

    Attributes:
        counted: Numbers of inherited canisters that were not in the database yet, by the key of
            the conversation.
    """

    def __init__(self, connection: sqlite3.Connection, directory: str) -> None:
        self._connection = connection
        self._directory = directory
        self._known: dict[str, Ancestry] = {}
        self.counted: dict[int, int] = {}

    def trace(self, identity: str) -> Ancestry:
        """Return what a conversation inherits, by following its ancestors.

        A missing parent, which the store would report as damage, counts as empty.
        """
        chain: list[tuple[str, _Link]] = []
        current: str | None = identity
        while current is not None and current not in self._known:
            link = _read_link(self._connection, current)
            if link is None or any(current == name for name, _ in chain):
                break
            chain.append((current, link))
            current = link.parent
        for name, link in reversed(chain):
            self._known[name] = self._inherit(link)
        return self._known[identity]

    def _inherit(self, link: _Link) -> Ancestry:
        parent_ancestry = self._known.get(link.parent) if link.parent is not None else None
        if parent_ancestry is None or link.parent is None:
            return Ancestry(0, link.first_words, link.first_position)
        inherited = link.parent_canisters if link.inherited is None else link.inherited
        if inherited is None:
            before = self._count_before(link.parent, link.parent_bytes or 0)
            inherited = parent_ancestry.inherited + (before or 0)
            if before is not None:
                self.counted[link.key] = inherited
        if parent_ancestry.first_words and parent_ancestry.first_index < inherited:
            return parent_ancestry._replace(inherited=inherited)
        return Ancestry(inherited, link.first_words, inherited + link.first_position)

    def _count_before(self, identity: str, size: int) -> int | None:
        """Return the number of own canisters that a conversation had at a size in bytes.

        Canisters that were moved there from deleted parents precede these bytes and are included.
        ``None`` if the file differs from the file that the database describes.
        """
        from vibe_llms.conversations.index.synopses import count_before

        shard, inode, merged = self._connection.execute(
            "SELECT shard, inode, merged_bytes FROM conversations WHERE id = ?", (identity,)
        ).fetchone()
        folder = compose_folder(self._directory, shard, identity)
        return count_before(folder, inode, merged + size)

    def store(self) -> None:
        """Store the new counts; they stay valid, as history before a fork never changes."""
        if self.counted:
            with transaction(self._connection):
                self._connection.executemany(
                    "UPDATE conversations SET inherited = ? WHERE key = ?",
                    [(count, key) for key, count in self.counted.items()],
                )


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Run all queries in the block on one snapshot, unaffected by concurrent writes."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        # After some errors SQLite has rolled back already.
        if connection.in_transaction:
            connection.execute("COMMIT")


def has_new_text(connection: sqlite3.Connection) -> bool:
    """Return whether listed messages are not searchable yet."""
    statement = "SELECT 1 FROM conversations WHERE searchable <> indexed LIMIT 1"
    return connection.execute(statement).fetchone() is not None


def survey_newest(
    connection: sqlite3.Connection, limit: int | None, *, parts: bool = False
) -> list[str]:
    """Return the ids of conversations, the most recently updated first."""
    rows = connection.execute(
        "SELECT id FROM conversations WHERE ? OR tags NOT LIKE ? ORDER BY updated DESC, id LIMIT ?",
        (parts, _PART, -1 if limit is None else limit),
    )
    return [identity for (identity,) in rows]


def gather_relatives(parents: Mapping[str, str | None], identity: str) -> list[str]:
    """Return the ids of all conversations that forks connect with one, which comes first.

    Args:
        parents: The parent of each conversation, by id.
        identity: Id of the conversation; nothing is related to an unknown one.
    """
    neighbors: dict[str, list[str]] = {}
    for child, parent in parents.items():
        if parent is not None and parent in parents:
            neighbors.setdefault(child, []).append(parent)
            neighbors.setdefault(parent, []).append(child)
    found = {identity: None} if identity in parents else {}
    pending = [*found]
    while pending:
        for neighbor in neighbors.get(pending.pop(), ()):
            if neighbor not in found:
                found[neighbor] = None
                pending.append(neighbor)
    return [*found]


def read_rows(
    connection: sqlite3.Connection, identities: Iterable[str], lineage: Lineage
) -> list[ConversationRow]:
    """Return the list rows of some conversations, in this order."""
    rows = []
    for identity in identities:
        for values in connection.execute(
            "SELECT name, created, updated, canisters, coalesce(model, used_model), tags, parent"
            " FROM conversations WHERE id = ?",
            (identity,),
        ):
            name, created, updated, canisters, model, tags, parent = values
            ancestry = lineage.trace(identity)
            rows.append(
                ConversationRow(
                    id=identity,
                    name=name,
                    created=_read_moment(created),
                    updated=_read_moment(updated),
                    canisters=ancestry.inherited + canisters,
                    model=model,
                    first_words=ancestry.first_words,
                    tags=_read_tags(tags) if tags else (),
                    parent=parent,
                )
            )
    return rows


def _read_tags(text: str) -> tuple[str, ...]:
    import json  # few conversations have tags

    return tuple(json.loads(text))


def _read_moment(moment_ns: int) -> datetime:
    return datetime.fromtimestamp(moment_ns / 1e9, UTC)


def search_canisters(
    connection: sqlite3.Connection,
    match: str,
    limit: int,
    lineage: Lineage,
    *,
    parts: bool = False,
) -> list[SearchHit]:
    """Return the canisters that match best, the best first.

    If there are very many matches, only those in the newest conversations are ranked.
    """
    best = connection.execute(
        # The role is only used to filter, and has weight zero. The lowest value is the best match.
        "SELECT place FROM (SELECT rowid AS place, bm25(texts, 1.0, 0.0) AS badness FROM texts"
        " WHERE texts MATCH ? AND (? OR rowid >> ? NOT IN"
        " (SELECT key FROM conversations WHERE tags LIKE ?))"
        " ORDER BY rowid DESC LIMIT ?) ORDER BY badness, place DESC LIMIT ?",
        (match, parts, KEY_SHIFT, _PART, RANKED_LIMIT, limit),
    ).fetchall()
    return [_read_hit(connection, match, row, lineage) for (row,) in best]


def _read_hit(connection: sqlite3.Connection, match: str, row: int, lineage: Lineage) -> SearchHit:
    (snippet,) = connection.execute(
        "SELECT snippet(texts, 0, ?, ?, '…', ?) FROM texts WHERE texts MATCH ? AND rowid = ?",
        (MARK_START, MARK_END, SNIPPET_WORDS, match, row),
    ).fetchone()
    identity, name = connection.execute(
        "SELECT id, name FROM conversations WHERE key = ?", (row >> KEY_SHIFT,)
    ).fetchone()
    canister_id, role, timestamp = connection.execute(
        "SELECT id, role, timestamp FROM places WHERE place = ?", (row,)
    ).fetchone()
    text, marks = _extract_marks(" ".join(restore_text(snippet).split()))
    return SearchHit(
        id=identity,
        name=name,
        index=lineage.trace(identity).inherited + (row & _POSITIONS),
        canister_id=canister_id,
        role=role,
        timestamp=_read_moment(timestamp),
        snippet=text,
        marks=marks,
    )


def _extract_marks(snippet: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Remove the marks from a snippet and return their positions; adjacent marks are merged."""
    snippet = snippet.replace(MARK_END + MARK_START, "")
    text = ""
    marks = []
    for piece in snippet.split(MARK_START):
        marked, end, rest = piece.partition(MARK_END)
        if end:
            marks.append((len(text), len(text) + len(marked)))
        text += marked + rest
    return text, tuple(marks)


def _read_link(connection: sqlite3.Connection, identity: str) -> _Link | None:
    row = connection.execute(
        "SELECT key, first_words, first_position, parent, parent_canisters, parent_bytes,"
        " inherited FROM conversations WHERE id = ?",
        (identity,),
    ).fetchone()
    return None if row is None else _Link(*row)
