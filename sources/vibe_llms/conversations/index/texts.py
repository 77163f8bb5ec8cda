"""Write the text of conversations into the index, for searches.

Lists do not need it, so the text of new messages is indexed by the next search.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING

from vibe_llms.conversations.index.database import KEY_SHIFT, transaction
from vibe_llms.conversations.index.extraction import read_entry
from vibe_llms.conversations.index.files import MESSAGES, read_file_stamp
from vibe_llms.conversations.index.index_writer import showing_progress
from vibe_llms.conversations.stores.sharding import compose_folder
from vibe_llms.foundation.files import open_regular
from vibe_llms.logs.lines import read_at

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.users import Progress

BATCH_BYTES = 8 * 1024 * 1024
"""Size of the text in one transaction, which takes about a second.

An interrupted rebuild loses no more, and other processes wait no longer. Progress is shown only for
more text.
"""


def update_texts(
    connection: sqlite3.Connection, directory: str, progress: Progress | None = None
) -> None:
    """Index the text of all messages of which only the metadata are indexed."""
    # In the order of rows, as a lower row would make FTS5 flush its buffer.
    pending = connection.execute(
        "SELECT key, indexed - searchable FROM conversations WHERE searchable <> indexed"
        " ORDER BY key"
    ).fetchall()
    total = sum(size for _, size in pending)
    is_long = total > BATCH_BYTES
    with showing_progress(total, progress if is_long else None, "Indexing text") as advance:
        for batch in _split_batches(pending):
            with transaction(connection):
                for key, size in batch:
                    _index_texts(connection, directory, key)
                    advance(size)


def _split_batches(pending: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    batch: list[tuple[int, int]] = []
    weight = 0
    for key, size in pending:
        batch.append((key, size))
        weight += size
        if weight >= BATCH_BYTES:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch


def _index_texts(connection: sqlite3.Connection, directory: str, key: int) -> None:
    """Index the new text of a conversation, unless another process has done so."""
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
            if read_file_stamp(file.fileno())[0] != inode:  # replaced since it was listed
                return
            data = read_at(file.fileno(), start, end - start)
    except OSError:
        return
    first = (key << KEY_SHIFT) + position
    entries = [entry for entry in map(read_entry, data.splitlines()) if entry is not None]
    connection.executemany(
        "INSERT INTO places VALUES (?, ?, ?, ?)",
        [
            (row_number, each.id, each.role, each.timestamp)
            for row_number, each in enumerate(entries, first)
        ],
    )
    connection.executemany(
        "INSERT INTO texts (rowid, text, role) VALUES (?, ?, ?)",
        [
            (row_number, each.text, each.role)
            for row_number, each in enumerate(entries, first)
            if each.text
        ],
    )
    connection.execute(
        "UPDATE conversations SET searchable = ?, placed = ? WHERE key = ?",
        (end, position + len(entries), key),
    )
