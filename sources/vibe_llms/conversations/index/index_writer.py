"""Write changed conversations into the index."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from typing import TYPE_CHECKING, Final, NamedTuple

from vibe_llms.conversations.index.database import KEY_SHIFT, transaction
from vibe_llms.conversations.index.extraction import Description, read_description
from vibe_llms.conversations.index.files import (
    MESSAGES,
    METADATA,
    NOTHING,
    ShardScan,
    Stamp,
    describe_stamp,
    read_metadata_stamp,
    read_stamp,
)
from vibe_llms.conversations.index.synopses import Synopsis, digest_tail, read_synopsis
from vibe_llms.conversations.stores.sharding import compose_folder, find_folder, find_shard
from vibe_llms.foundation.files import open_measured
from vibe_llms.logs.lines import read_at

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.users import Progress

BATCH: Final = 2_000
"""Number of conversations in one transaction, which takes about a third of a second.

An interrupted rebuild loses no more, and other processes wait no longer. Progress is shown only for
more conversations.
"""

TALLY: Final = "messages.tally"


class _IndexedRow(NamedTuple):
    """Row of a conversation in the database, without its metadata."""

    key: int
    shard: str
    inode: int
    size: int
    changed: int
    indexed: int
    tail: int
    canisters: int
    first_words: str
    first_position: int
    used_model: str | None

    @property
    def stamp(self) -> Stamp:
        return (self.inode, self.size, self.changed)

    @property
    def synopsis(self) -> Synopsis:
        return Synopsis(*self[5:])


_ROW_COLUMNS: Final = ", ".join(_IndexedRow._fields)
_COLUMNS: Final = ("id", *_IndexedRow._fields[1:], "description", *Description._fields, "updated")
_NULLABLE: Final = frozenset(
    {"used_model", "name", "model", "parent", "parent_canisters", "parent_bytes"}
)
_VALUES: Final = ", ".join("nullif(?, '')" if name in _NULLABLE else "?" for name in _COLUMNS)
"""An empty text stands for NULL: to pass ``None`` to SQLite takes ten times as long."""

_WRITE: Final = (
    f"INSERT INTO conversations ({', '.join(_COLUMNS)}) VALUES ({_VALUES})"
    f" ON CONFLICT (id) DO UPDATE SET inherited = NULL, "
    + ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])
)


def update_conversations(
    connection: sqlite3.Connection,
    directory: str,
    scans: Sequence[ShardScan],
    progress: Progress | None = None,
) -> None:
    """Update the index from the files of shards in which something has changed.

    Args:
        progress: Shows the progress in bytes, if there are many conversations.
    """
    stamps: dict[str, Stamp] = {}
    keys: dict[str, int] = {}
    shards: dict[str, str] = {}
    for scan in scans:
        known = _read_known(connection, scan.shard)
        shards.update(dict.fromkeys(scan.present, scan.shard))
        for identity in known.keys() | scan.present.keys():
            stamp = scan.present.get(identity, NOTHING)
            if identity not in known:
                stamps[identity] = stamp
            elif known[identity][1:] != scan.present.get(identity):
                stamps[identity], keys[identity] = stamp, known[identity][0]

    def order(identity: str) -> tuple[int, int]:
        # Known conversations first, in the order of their rows; then new conversations by age, so
        # that newer conversations get higher rows.
        key = keys.get(identity)
        return (1, stamps[identity][2]) if key is None else (0, key)

    changed = sorted(stamps, key=order)
    total = sum(stamps[each][1] for each in changed)
    is_long = len(changed) > BATCH
    with showing_progress(
        total, progress if is_long else None, "Indexing conversations"
    ) as advance:
        for start in range(0, len(changed), BATCH):
            batch = changed[start : start + BATCH]
            with transaction(connection):
                present = _read_rows(connection, batch)
                rows: list[tuple[object, ...]] = []
                for identity in batch:
                    shard = shards.get(identity) or find_shard(directory, identity)
                    row = present.get(identity)
                    rows += _index_conversation(connection, directory, shard, identity, row)
                    advance(stamps[identity][1])
                connection.executemany(_WRITE, rows)
    if not scans:
        return
    with transaction(connection):
        for scan in scans:
            # Compare again: if other processes have appended in the meantime, the next call must
            # update the shard again.
            known = _read_known(connection, scan.shard)
            if {identity: values[1:] for identity, values in known.items()} == scan.present:
                connection.execute(
                    "INSERT OR REPLACE INTO shards VALUES (?, ?, ?)",
                    (scan.shard, scan.changed, scan.fingerprint),
                )
            else:
                connection.execute("DELETE FROM shards WHERE shard = ?", (scan.shard,))


def store_shard_times(
    connection: sqlite3.Connection,
    unchanged: Iterable[tuple[int, str]],
    times: str,
    compared: tuple[int, int] | None,
) -> None:
    """Store the times of unchanged shards.

    Args:
        unchanged: Time and name of each.
        times: Digest of the times of all shards; empty if not all are final.
        compared: The time at which all conversations were compared, and the time of the machine's
            start; ``None`` if they were not.
    """
    with transaction(connection):
        connection.executemany("UPDATE shards SET changed = ? WHERE shard = ?", unchanged)
        connection.execute("UPDATE state SET times = ?", (times,))
        if compared is not None:
            connection.execute("UPDATE state SET compared = ?, started = ?", compared)


@contextmanager
def showing_progress(
    size: int, progress: Progress | None, label: str
) -> Iterator[Callable[[int], None]]:
    """Show the progress of work on some bytes; yield the function that reports completed bytes."""
    if progress is None:
        yield lambda amount: None
        return
    progress.start(size, label)
    try:
        yield progress.advance
    finally:
        progress.finish()


def _read_known(connection: sqlite3.Connection, shard: str) -> dict[str, tuple[int, int, int, int]]:
    """Return the key and the stamp of each conversation in a shard."""
    rows = connection.execute(
        "SELECT id, key, inode, size, changed FROM conversations WHERE shard = ?", (shard,)
    )
    return {row[0]: row[1:] for row in rows}


def _read_rows(connection: sqlite3.Connection, identities: list[str]) -> dict[str, _IndexedRow]:
    """Return the rows of some conversations, read again, as other processes may have written."""
    marks = ", ".join("?" * len(identities))
    rows = connection.execute(
        f"SELECT id, {_ROW_COLUMNS} FROM conversations WHERE id IN ({marks})", identities
    )
    return {identity: _IndexedRow(*row) for identity, *row in rows}


def _index_conversation(
    connection: sqlite3.Connection,
    directory: str,
    shard: str,
    identity: str,
    known: _IndexedRow | None,
) -> Iterator[tuple[object, ...]]:
    """Index a conversation: only the new part, if its file has only grown since.

    Checks the file again, as another process may have indexed it in the meantime.

    Args:
        shard: Shard of the conversation at the scan.
        known: Its present row.

    Yields:
        New row of the conversation, if it has changed.
    """
    opened = _open_messages(compose_folder(directory, shard, identity))
    if opened is None:  # it has no messages, or was moved in the meantime
        shard = find_shard(directory, identity)
        opened = _open_messages(compose_folder(directory, shard, identity))
    folder = compose_folder(directory, shard, identity)
    synopsis, stamp = Synopsis(), NOTHING
    if opened is None:
        if not read_metadata_stamp(folder):
            if known is not None:  # neither messages nor metadata: it was deleted
                remove_texts(connection, known.key)
                connection.execute("DELETE FROM conversations WHERE key = ?", (known.key,))
            return
        if known is not None:
            remove_texts(connection, known.key)
    else:
        # Measured before reading: the next call then detects a change in between.
        file, status = opened
        stamp = read_stamp(status)
        with file:
            if known is not None and known.stamp == stamp:
                if known.shard != shard:
                    connection.execute(
                        "UPDATE conversations SET shard = ? WHERE key = ?", (shard, known.key)
                    )
                return
            if known is not None:
                if _has_only_grown(file.fileno(), stamp, known):
                    synopsis = known.synopsis
                else:
                    remove_texts(connection, known.key)
            synopsis = read_synopsis(file.fileno(), stamp[1], f"{folder}/{TALLY}", synopsis)
    described, description = _read_description(folder)
    last_message = stamp[2] if stamp[1] else 0
    updated = max(description.created, last_message)
    row = (identity, shard, *stamp, *synopsis, described, *description, updated)
    yield tuple(["" if value is None else value for value in row])


def _open_messages(folder: str) -> tuple[FileIO, os.stat_result] | None:
    """Open and measure the messages, if the file exists and is readable."""
    try:
        return open_measured(f"{folder}/{MESSAGES}")
    except OSError:
        return None


def _has_only_grown(descriptor: int, stamp: Stamp, known: _IndexedRow) -> bool:
    inode, size, _ = stamp
    return (
        inode == known.inode
        and size > known.size
        and digest_tail(descriptor, known.indexed) == known.tail
    )


def _read_description(folder: str) -> tuple[str, Description]:
    """Read the metadata of a conversation; return their stamp, too."""
    try:
        # Measured before reading: the next call then detects a change in between.
        file, status = open_measured(f"{folder}/{METADATA}")
        with file:
            data = read_at(file.fileno(), 0, status.st_size)
            return describe_stamp(status), read_description(data)
    except OSError:
        return "", read_description(b"")


def update_descriptions(
    connection: sqlite3.Connection, directory: str, identities: Iterable[str]
) -> None:
    """Read the metadata of some conversations again."""
    assignments = ", ".join(f"{name} = ?" for name in Description._fields)
    with transaction(connection):
        for identity in identities:
            stamp, description = _read_description(find_folder(directory, identity))
            # For a conversation without messages, the time of its creation is used.
            connection.execute(
                f"UPDATE conversations SET description = ?, inherited = NULL, {assignments},"
                " updated = max(?, iif(size = 0, 0, changed)) WHERE id = ?",
                (stamp, *description, description.created, identity),
            )


def remove_texts(connection: sqlite3.Connection, key: int) -> None:
    """Remove the text of a conversation."""
    places = (key << KEY_SHIFT, (key + 1) << KEY_SHIFT)
    connection.execute("DELETE FROM texts WHERE rowid >= ? AND rowid < ?", places)
    connection.execute("DELETE FROM places WHERE place >= ? AND place < ?", places)
    connection.execute("UPDATE conversations SET searchable = 0, placed = 0 WHERE key = ?", (key,))
