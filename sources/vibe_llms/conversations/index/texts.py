"""Writer of the text of conversations into the index, for searches.

A list does without, so the text of new messages is indexed by the next search.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING

from vibe_llms.conversations.index.database import KEY_SHIFT, transaction
from vibe_llms.conversations.index.extraction import read_place
from vibe_llms.conversations.index.files import MESSAGES, measure_file
from vibe_llms.conversations.index.index_writer import shown
from vibe_llms.conversations.stores.sharding import compose_folder
from vibe_llms.foundation.files import open_regular
from vibe_llms.logs.lines import read_at

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.users import Progress

BATCH_BYTES = 8 * 1024 * 1024
"""Text between two commits, about a second: the most that an interrupted rebuild loses, and that
others wait for. Only more of it shows its progress."""


def update_texts(
    connection: sqlite3.Connection, directory: str, progress: Progress | None = None
) -> None:
    """Index the text of all messages that are listed."""
    # In row order, since going back makes FTS5 flush its buffer.
    waiting = connection.execute(
        "SELECT key, indexed - searchable FROM conversations WHERE searchable <> indexed"
        " ORDER BY key"
    ).fetchall()
    total = sum(size for _, size in waiting)
    is_long = total > BATCH_BYTES
    with shown(total, progress if is_long else None, "Indexing text") as advance:
        for batch in _parted(waiting):
            with transaction(connection):
                for key, size in batch:
                    _index_texts(connection, directory, key)
                    advance(size)


def _parted(waiting: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    batch: list[tuple[int, int]] = []
    weight = 0
    for key, size in waiting:
        batch.append((key, size))
        weight += size
        if weight >= BATCH_BYTES:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch


def _index_texts(connection: sqlite3.Connection, directory: str, key: int) -> None:
    """Index the new text of a conversation, unless another process was first."""
    row = connection.execute(
        "SELECT id, shard, inode, indexed, searchable, placed FROM conversations"
        " WHERE key = ? AND searchable < indexed",
        (key,),
    ).fetchone()
    if row is None:
        return
    identity, shard, inode, end, start, position = row
    try:
        with open_regular(f"{compose_folder(directory, shard, identity)}/{MESSAGES}") as file:
            if measure_file(file.fileno())[0] != inode:  # replaced since it was listed
                return
            data = read_at(file.fileno(), start, end - start)
    except OSError:
        return
    first = (key << KEY_SHIFT) + position
    entries = [entry for entry in map(read_place, data.splitlines()) if entry is not None]
    connection.executemany(
        "INSERT INTO places VALUES (?, ?, ?, ?)",
        [(place, each.id, each.role, each.timestamp) for place, each in enumerate(entries, first)],
    )
    connection.executemany(
        "INSERT INTO texts (rowid, text, role) VALUES (?, ?, ?)",
        [(place, each.text, each.role) for place, each in enumerate(entries, first) if each.text],
    )
    connection.execute(
        "UPDATE conversations SET searchable = ?, placed = ? WHERE key = ?",
        (end, position + len(entries), key),
    )
