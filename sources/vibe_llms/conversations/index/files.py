"""Stamps of a conversation's files, to detect that they have changed."""

from __future__ import annotations

import os
from typing import NamedTuple, TypeAlias

Stamp: TypeAlias = tuple[int, int, int]
"""Inode, size and time of change of a file."""

MESSAGES = "messages.jsonl"
METADATA = "metadata.toml"

_MAXIMUM_INTEGER = (1 << 63) - 1  # maximum of SQLite's integers; file systems use higher numbers

NOTHING: Stamp = (0, 0, 0)
"""The stamp of a missing file."""


class ShardScan(NamedTuple):
    """The conversations in a shard at the time of a scan.

    Attributes:
        shard: Name of the shard.
        changed: Time of the folder before the scan; 0 if a later change could have an equal time.
        fingerprint: Digest of all stamps.
        present: Stamps of the message files, by the ids of the conversations.
    """

    shard: str
    changed: int
    fingerprint: str
    present: dict[str, Stamp]


def clamp_stamp(stamp: Stamp) -> Stamp:
    """Limit the numbers of a stamp to the range of SQLite's integers."""
    inode, size, changed = stamp
    return (inode & _MAXIMUM_INTEGER, size, max(0, min(changed, _MAXIMUM_INTEGER)))


def read_file_stamp(descriptor: int) -> Stamp:
    """Return the stamp of an open file."""
    return read_stamp(os.fstat(descriptor))


def read_stamp(status: os.stat_result) -> Stamp:
    """Return the stamp in the status of a file."""
    return clamp_stamp((status.st_ino, status.st_size, status.st_mtime_ns))


def read_metadata_stamp(folder: str) -> str:
    """Return a stamp that changes with the metadata of a conversation; empty without metadata."""
    try:
        return describe_stamp(os.stat(f"{folder}/{METADATA}"))
    except OSError:
        return ""


def describe_stamp(status: os.stat_result) -> str:
    """Return a stamp as a text, which can have numbers of any size."""
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
