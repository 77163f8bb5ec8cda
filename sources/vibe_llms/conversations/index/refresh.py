"""Update of the index from the files: compare first, read only changes.

The comparison needs one ``stat`` of each ``messages.jsonl``. Metadata are compared only for the
conversations about to be shown, which halves the work. Therefore sort keys of lists must not come
from metadata that can change independently.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.users import Progress

Stamp: TypeAlias = tuple[int, int, int]
"""Inode, size and time of change of a file."""

MESSAGES = "messages.jsonl"
METADATA = "metadata.toml"

_HUGE = (1 << 63) - 1  # maximum of SQLite's integers; file systems use higher numbers

NOTHING: Stamp = (0, 0, 0)
"""The stamp of a file that is not there."""


def measure_messages(directory: str) -> tuple[list[str], list[int]]:
    """Measure the messages of all conversations in a directory.

    Returns:
        The ids of the conversations, and the numbers of their stamps in one flat list: the caller
        pairs them only if something has changed.
    """
    names: list[str] = []
    numbers: list[int] = []
    # Relative to an open folder, the system need not resolve its path for each conversation.
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        stat = os.stat
        for name in os.listdir(descriptor):
            if name[0] == ".":  # locks, and the store's own folders
                continue
            try:
                status = stat(f"{name}/{MESSAGES}", dir_fd=descriptor)
                numbers += (status.st_ino, status.st_size, status.st_mtime_ns)
            except OSError:
                if not os.access(f"{name}/{METADATA}", os.F_OK, dir_fd=descriptor):
                    continue
                numbers += NOTHING
            names.append(name)
    finally:
        os.close(descriptor)
    return names, numbers


def measure_file(descriptor: int) -> Stamp:
    """Return the stamp of an open file."""
    status = os.fstat(descriptor)
    return _fit((status.st_ino, status.st_size, status.st_mtime_ns))


def _fit(stamp: Stamp) -> Stamp:
    inode, size, changed = stamp
    return (inode & _HUGE, size, max(0, min(changed, _HUGE)))


def measure_metadata(directory: str, identity: str) -> str:
    """Return a stamp that changes with the metadata of a conversation."""
    try:
        status = os.stat(f"{directory}/{identity}/{METADATA}")
    except OSError:
        return ""
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def refresh_messages(
    connection: sqlite3.Connection, directory: str, progress: Progress | None = None
) -> None:
    """Update the index of messages.

    A fingerprint of all measurements avoids comparing them one by one, which would double the cost.
    """
    names, numbers = measure_messages(directory)
    # Python hashes numbers equally in all processes, but not text, so text gets a checksum.
    fingerprint = f"{zlib.crc32(os.fsencode('/'.join(names)))} {hash(tuple(numbers))}"
    (known,) = connection.execute("SELECT fingerprint FROM state").fetchone()
    if known == fingerprint:
        return
    from vibe_llms.conversations.index.writing import update_conversations
    from vibe_llms.conversations.stores.naming import is_identity_form

    stamps = map(_fit, zip(numbers[0::3], numbers[1::3], numbers[2::3], strict=True))
    present = {
        name: stamp
        for name, stamp in zip(names, stamps, strict=True)
        if is_identity_form(name)  # otherwise it is a copy of a folder, which stores ignore
    }
    update_conversations(connection, directory, present, fingerprint, progress)


def refresh_metadata(
    connection: sqlite3.Connection, directory: str, identities: Iterable[str]
) -> bool:
    """Update the metadata of some conversations; return whether any have changed."""
    stale = []
    for identity in identities:
        for (description,) in connection.execute(
            "SELECT description FROM conversations WHERE id = ?", (identity,)
        ):
            if description != measure_metadata(directory, identity):
                stale.append(identity)
    if not stale:
        return False
    from vibe_llms.conversations.index.writing import update_descriptions

    update_descriptions(connection, directory, stale)
    return True
