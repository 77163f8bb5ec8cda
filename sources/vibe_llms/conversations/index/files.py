"""Measuring of a conversation's files, to notice that they have changed."""

from __future__ import annotations

import os
from typing import NamedTuple, TypeAlias

Stamp: TypeAlias = tuple[int, int, int]
"""Inode, size and time of change of a file."""

MESSAGES = "messages.jsonl"
METADATA = "metadata.toml"

_HUGE = (1 << 63) - 1  # maximum of SQLite's integers; file systems use higher numbers

NOTHING: Stamp = (0, 0, 0)
"""The stamp of a file that is not there."""


class ShardScan(NamedTuple):
    """Conversations of a shard, as they were found.

    Attributes:
        shard: Name of the shard.
        changed: Time of its folder before the scan; 0 if that does not exclude later changes.
        fingerprint: Digest of all stamps.
        present: The stamps of the messages of its conversations.
    """

    shard: str
    changed: int
    fingerprint: str
    present: dict[str, Stamp]


def fit_stamp(stamp: Stamp) -> Stamp:
    """Return a stamp whose numbers SQLite can store."""
    inode, size, changed = stamp
    return (inode & _HUGE, size, max(0, min(changed, _HUGE)))


def measure_file(descriptor: int) -> Stamp:
    """Return the stamp of an open file."""
    status = os.fstat(descriptor)
    return fit_stamp((status.st_ino, status.st_size, status.st_mtime_ns))


def measure_metadata(folder: str) -> str:
    """Return a stamp that changes with the metadata of a conversation; empty without metadata."""
    try:
        return describe_stamp(os.stat(f"{folder}/{METADATA}"))
    except OSError:
        return ""


def describe_stamp(status: os.stat_result) -> str:
    """Return a stamp as a text, which has room for any numbers."""
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
