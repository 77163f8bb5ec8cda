"""Comparison of the index with the files: find the conversations that have changed.

A store sets the modification time of a shard's folder when it changes a conversation in the shard.
The file system does so when a conversation is added or removed. So only the conversations in shards
with a new time are compared, which takes one ``stat`` each. All conversations are compared once a
day, after a restart of the machine, which may have lost times of folders, and for a list of all.
Conversations outside of shards are always compared.

Metadata are compared only for the conversations about to be shown. Therefore lists must not be
sorted by metadata, which may be outdated.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from vibe_llms.conversations.index.files import (
    MESSAGES,
    METADATA,
    NOTHING,
    ShardScan,
    Stamp,
    clamp_stamp,
    read_metadata_stamp,
)
from vibe_llms.conversations.stores.sharding import NO_SHARD, belongs, find_folder, survey_shards

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.users import Progress

UNCERTAIN_NS = 60_000_000_000
"""Age up to which a folder may change again without getting another time.

File systems round times, machines that share a store differ in their clocks, and a writer does not
set the time of a folder at each change (:data:`.layout.RENEWAL_NS`).
"""

_COMPARISON_NS = 24 * 3600 * 1_000_000_000
_RESTART_NS = 2_000_000_000
"""Maximum difference between two computed times of one start of the machine."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)  # Linux; others count from the start as well


def refresh_messages(
    connection: sqlite3.Connection,
    directory: str,
    progress: Progress | None = None,
    *,
    everything: bool = False,
) -> None:
    """Update the index from the messages of conversations that have changed.

    Args:
        everything: Compare all conversations, also those whose shard did not change. This is also
            done after a restart of the machine, and when the last full comparison is too old.
    """
    now, started = time.time_ns(), _compute_start_ns()
    compared, known_start, known_times = connection.execute(
        "SELECT compared, started, times FROM state"
    ).fetchone()
    has_restarted = abs(started - known_start) >= _RESTART_NS
    is_comparison_recent = 0 <= now - compared < _COMPARISON_NS
    everything = everything or has_restarted or not is_comparison_recent
    names, shards = _read_times(directory)
    unsharded = [name for name in names if name[0] not in "._"]  # the rest are locks and shards
    times = _digest([*shards], [*shards.values()])
    if times == known_times and not unsharded and not everything:
        return
    known = {
        shard: (changed, fingerprint)
        for shard, changed, fingerprint in connection.execute("SELECT * FROM shards")
    }
    scans, unchanged = _scan(directory, unsharded, shards, known, now, everything=everything)
    is_final = not scans and all(now - changed > UNCERTAIN_NS for changed in shards.values())
    times = times if is_final and not unsharded else ""
    if not (scans or unchanged or everything or times != known_times):
        return
    from vibe_llms.conversations.index.index_writer import store_shard_times, update_conversations

    update_conversations(connection, directory, scans, progress)
    store_shard_times(connection, unchanged, times, (now, started) if everything else None)


def _compute_start_ns() -> int:
    """Return the time of the machine's start; it also changes if the clock is set."""
    clock = time.monotonic_ns() if _CLOCK is None else time.clock_gettime_ns(_CLOCK)
    return time.time_ns() - clock


def _read_times(directory: str) -> tuple[list[str], dict[str, int]]:
    """Return the entries of the conversations' folder, and the times of the shards among them."""
    shards: dict[str, int] = {}
    # Relative to an open folder, the system need not resolve its path for each shard.
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        names, stat = os.listdir(descriptor), os.stat
        for shard in survey_shards(names):
            try:  # `suppress` would double the time
                shards[shard] = stat(shard, dir_fd=descriptor).st_mtime_ns
            except OSError:  # removed in the meantime
                continue
    finally:
        os.close(descriptor)
    return names, shards


def _scan(
    directory: str,
    unsharded: list[str],
    shards: dict[str, int],
    known: dict[str, tuple[int, str]],
    now: int,
    *,
    everything: bool,
) -> tuple[list[ShardScan], list[tuple[int, str]]]:
    """Scan the shards whose time has changed.

    Args:
        unsharded: Names of the folders of conversations outside of shards.
        shards: Times of the shards.
        known: Time and fingerprint of each shard at the last scan.

    Returns:
        The shards with changed conversations; and the times and names of those whose time has
        changed, but no conversation.
    """
    scans, unchanged = [], []
    for shard, folder_change in ((NO_SHARD, 0), *shards.items()):
        known_change, known_fingerprint = known.get(shard, (0, ""))
        if folder_change == known_change and folder_change and not everything:
            continue
        # A folder that has changed recently may change again without getting another time.
        is_certain = now - folder_change > UNCERTAIN_NS
        changed = folder_change if is_certain else 0
        entries = unsharded if shard == NO_SHARD else _list_folder(f"{directory}/{shard}")
        found, numbers = _measure(directory, shard, entries)
        fingerprint = _digest(found, numbers)
        if fingerprint != known_fingerprint:
            scans.append(
                ShardScan(shard, changed, fingerprint, _pair_stamps(shard, found, numbers))
            )
        elif changed != known_change:
            unchanged.append((changed, shard))
    removed = known.keys() - shards.keys() - {NO_SHARD}
    scans += [ShardScan(shard, 0, "", {}) for shard in removed]
    return scans, unchanged


def _list_folder(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []
    except OSError as error:  # if ignored, its conversations would count as deleted
        from vibe_llms.conversations.stores.mapping import produce_store_error

        raise produce_store_error(error) from error


def _measure(directory: str, shard: str, entries: Sequence[str]) -> tuple[list[str], list[int]]:
    """Measure the messages of all conversations in a shard.

    Returns:
        The ids of the conversations, and the numbers of their stamps in one flat list. The caller
        pairs ids and stamps only if something has changed.
    """
    names: list[str] = []
    numbers: list[int] = []
    stat, folder = os.stat, f"{directory}/{shard}" if shard else directory
    for name in entries:
        if name[0] in "._":  # locks, shards, and other folders of the store
            continue
        try:
            status = stat(f"{folder}/{name}/{MESSAGES}")
            numbers += (status.st_ino, status.st_size, status.st_mtime_ns)
        except OSError:
            if not os.access(f"{folder}/{name}/{METADATA}", os.F_OK):
                continue
            numbers += NOTHING
        names.append(name)
    return names, numbers


def _digest(names: list[str], numbers: list[int]) -> str:
    # Python hashes numbers equally in all processes, but not text, so text gets a checksum.
    return f"{zlib.crc32(os.fsencode('/'.join(names)))} {hash(tuple(numbers))}"


def _pair_stamps(shard: str, names: list[str], numbers: list[int]) -> dict[str, Stamp]:
    stamps = map(clamp_stamp, zip(numbers[0::3], numbers[1::3], numbers[2::3], strict=True))
    return {
        name: stamp
        for name, stamp in zip(names, stamps, strict=True)
        if belongs(name, shard)  # otherwise it is a copy of a folder, which stores ignore
    }


def refresh_metadata(
    connection: sqlite3.Connection, directory: str, identities: Iterable[str]
) -> bool:
    """Update the metadata of some conversations; return whether any have changed."""
    stale = []
    for identity in identities:
        for (description,) in connection.execute(
            "SELECT description FROM conversations WHERE id = ?", (identity,)
        ):
            if description != read_metadata_stamp(find_folder(directory, identity)):
                stale.append(identity)
    if not stale:
        return False
    from vibe_llms.conversations.index.index_writer import update_descriptions

    update_descriptions(connection, directory, stale)
    return True
