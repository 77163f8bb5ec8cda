"""Writer of changes in the files to the index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import blake2b
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from vibe_llms.conversations.index.database import KEY_SHIFT, transaction
from vibe_llms.conversations.index.extraction import (
    compose_first_words,
    read_description,
    read_place,
)
from vibe_llms.conversations.index.refresh import (
    MESSAGES,
    METADATA,
    NOTHING,
    Stamp,
    measure_file,
    measure_metadata,
)
from vibe_llms.foundation.files import read_along, read_regular

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.users import Progress

BATCH_BYTES = 8 * 1024 * 1024
"""How much is read between two commits, which takes about a second: what a rebuild that is
interrupted loses at most, and how long others may have to wait before it is their turn."""

_TAIL_BYTES = 4096


class _Known(NamedTuple):
    """Row of a conversation in the database."""

    key: int
    inode: int
    size: int
    changed: int
    indexed: int
    tail: bytes
    canisters: int
    first_words: str
    first_position: int
    used_model: str | None

    @property
    def stamp(self) -> Stamp:
        return (self.inode, self.size, self.changed)


_KNOWN_COLUMNS = ", ".join(_Known._fields)


def update_conversations(
    connection: sqlite3.Connection,
    directory: str,
    present: Mapping[str, Stamp],
    fingerprint: str,
    progress: Progress | None = None,
) -> None:
    """Update the index from the files.

    Args:
        progress: Shows the progress in bytes, if it takes longer than about a second.
        present: The existing conversations, with the stamps of their messages.
        fingerprint: Fingerprint of these; it is stored if all of them were found in this state.
    """
    known = _read_known(connection)
    changed = [
        identity
        for identity in known.keys() | present.keys()
        if identity not in known or known[identity][1:] != present.get(identity)
    ]

    def order(identity: str) -> tuple[int, int]:
        # In row order, since going back makes FTS5 flush its buffer; new ones by age, so that
        # higher rows are newer conversations.
        if identity in known:
            return (0, known[identity][0])
        return (1, present[identity][2])

    changed.sort(key=order)
    with _shown(sum(present.get(each, NOTHING)[1] for each in changed), progress) as advance:
        for batch in _parted(changed, present):
            with transaction(connection):
                for identity in batch:
                    _index_conversation(connection, directory, identity)
                    advance(present.get(identity, NOTHING)[1])
    with transaction(connection):
        # Compare once more: if others have appended in the interim, the next call must update
        # again.
        known = _read_known(connection)
        if {identity: values[1:] for identity, values in known.items()} == present:
            connection.execute("UPDATE state SET fingerprint = ?", (fingerprint,))


@contextmanager
def _shown(size: int, progress: Progress | None) -> Iterator[Callable[[int], None]]:
    """Show the progress of long work; yield the function that reports advances."""
    if progress is None or size <= BATCH_BYTES:
        yield lambda amount: None
        return
    progress.start(size, "Indexing conversations")
    try:
        yield progress.advance
    finally:
        progress.finish()


def _read_known(connection: sqlite3.Connection) -> dict[str, tuple[int, int, int, int]]:
    """Return the key and the stamp of each conversation."""
    rows = connection.execute("SELECT id, key, inode, size, changed FROM conversations")
    return {row[0]: row[1:] for row in rows}


def _parted(identities: list[str], stamps: Mapping[str, Stamp]) -> Iterator[list[str]]:
    batch: list[str] = []
    weight = 0
    for identity in identities:
        batch.append(identity)
        weight += stamps.get(identity, NOTHING)[1]
        if weight >= BATCH_BYTES:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch


def _forget(connection: sqlite3.Connection, key: int) -> None:
    _forget_places(connection, key)
    connection.execute("DELETE FROM conversations WHERE key = ?", (key,))


def _forget_places(connection: sqlite3.Connection, key: int) -> None:
    places = (key << KEY_SHIFT, (key + 1) << KEY_SHIFT)
    connection.execute("DELETE FROM texts WHERE rowid >= ? AND rowid < ?", places)
    connection.execute("DELETE FROM places WHERE place >= ? AND place < ?", places)


def _index_conversation(connection: sqlite3.Connection, directory: str, identity: str) -> None:
    """Index the new part of a conversation, or all of it unless it only grew.

    Checks the file again, since another process may have indexed it first.
    """
    row = connection.execute(
        f"SELECT {_KNOWN_COLUMNS} FROM conversations WHERE id = ?", (identity,)
    ).fetchone()
    known = None if row is None else _Known(*row)
    with _open_messages(directory, identity) as file:
        if file is None:
            if not measure_metadata(directory, identity):
                if known is not None:  # neither messages nor metadata: it was deleted
                    _forget(connection, known.key)
                return
        elif known is not None and known.stamp == measure_file(file.fileno()):
            return
        if known is None or file is None or not _has_only_grown(file, known):
            known = _renew(connection, identity, known)
        _index_file(connection, directory, identity, file, known)


def _open_messages(
    directory: str, identity: str
) -> AbstractContextManager[BinaryIO] | AbstractContextManager[None]:
    """Open the messages, if the file exists and is readable."""
    try:
        return read_along(f"{directory}/{identity}/{MESSAGES}")
    except OSError:
        return nullcontext()


def _renew(connection: sqlite3.Connection, identity: str, known: _Known | None) -> _Known:
    """Insert the row of a new conversation."""
    if known is None:
        cursor = connection.execute(
            "INSERT INTO conversations (id, inode, size, changed, description, indexed, tail,"
            " canisters, first_words, first_position, created, updated, tags, merged_bytes)"
            " VALUES (?, 0, 0, 0, '', 0, x'', 0, '', 0, 0, 0, '', 0)",
            (identity,),
        )
        assert cursor.lastrowid is not None
        key = cursor.lastrowid
    else:
        key = known.key
        _forget_places(connection, key)
    return _Known(key, *NOTHING, 0, b"", 0, "", 0, None)


def _has_only_grown(file: BinaryIO, known: _Known) -> bool:
    inode, size, _ = measure_file(file.fileno())
    return (
        inode == known.inode
        and size > known.size
        and _digest_tail(file, known.indexed) == known.tail
    )


def _digest_tail(file: BinaryIO, end: int) -> bytes:
    """Hash the bytes before a position, and leave the file position there."""
    start = max(0, end - _TAIL_BYTES)
    file.seek(start)
    return blake2b(file.read(end - start), digest_size=16).digest()


def _index_file(
    connection: sqlite3.Connection,
    directory: str,
    identity: str,
    file: BinaryIO | None,
    known: _Known,
) -> None:
    """Index a file from the last position on, and the metadata beside it."""
    # Measure before reading: the next call then notices a change in between.
    description = measure_metadata(directory, identity)
    if file is not None:
        inode, size, changed = measure_file(file.fileno())
        known = known._replace(inode=inode, size=size, changed=changed)
        file.seek(known.indexed)
        known = _index_lines(connection, file, known)
        known = known._replace(tail=_digest_tail(file, known.indexed))
    assignments = ", ".join(f"{name} = ?" for name in _Known._fields[1:])
    connection.execute(
        f"UPDATE conversations SET {assignments} WHERE key = ?", (*known[1:], known.key)
    )
    _describe(connection, directory, identity, description)


def _index_lines(connection: sqlite3.Connection, file: BinaryIO, known: _Known) -> _Known:
    """Index lines up to the size seen; skip an incomplete last line until later."""
    end, position = known.indexed, known.canisters
    first_words, first_position = known.first_words, known.first_position
    used_model = known.used_model
    first = known.key << KEY_SHIFT
    texts, places = [], []
    for line in file:
        if not line.endswith(b"\n") or end + len(line) > known.size:
            break
        end += len(line)
        place = read_place(line)
        if place is None:
            continue
        places.append((first + position, end, place.id, place.role, place.timestamp))
        if place.text:
            texts.append((first + position, place.text, place.role))
        if place.role == "user" and not first_words:
            first_words, first_position = compose_first_words(place.text), position
        used_model = place.model or used_model
        position += 1
    connection.executemany("INSERT INTO places VALUES (?, ?, ?, ?, ?)", places)
    connection.executemany("INSERT INTO texts (rowid, text, role) VALUES (?, ?, ?)", texts)
    return known._replace(
        indexed=end,
        canisters=position,
        first_words=first_words,
        first_position=first_position,
        used_model=used_model,
    )


def update_descriptions(
    connection: sqlite3.Connection, directory: str, identities: Iterable[str]
) -> None:
    """Read the metadata of some conversations again."""
    with transaction(connection):
        for identity in identities:
            _describe(connection, directory, identity, measure_metadata(directory, identity))


def _describe(connection: sqlite3.Connection, directory: str, identity: str, stamp: str) -> None:
    # An empty file has only the time of its creation.
    try:
        data = read_regular(f"{directory}/{identity}/{METADATA}")
    except OSError:
        data = b""
    description = read_description(data)
    assignments = ", ".join(f"{name} = ?" for name in description._fields)
    connection.execute(
        f"UPDATE conversations SET description = ?, {assignments},"
        " updated = max(?, iif(size = 0, 0, changed)) WHERE id = ?",
        (stamp, *description, description.created, identity),
    )
