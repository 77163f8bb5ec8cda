"""Migration of a store from the former layout, in which all conversations were in one folder.

Each conversation is moved by one rename, so that after a crash it is in either the old or the new
place, and the store finds it in both. An interrupted migration can be repeated.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from vibe_llms.conversations.run_logs.file_log import LOCK as RUNS_LOCK
from vibe_llms.conversations.stores.identities import is_identity_form
from vibe_llms.conversations.stores.layout import LOCK, Layout
from vibe_llms.conversations.stores.mapping import mapping_errors
from vibe_llms.conversations.stores.sharding import is_shard, name_shard
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.logs import locks
from vibe_llms.logs.disk import make_folders

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.directory import DirectoryStore
    from vibe_llms.plugins.specification.users import Progress

_BATCH: Final = 200
"""Number of conversations that are moved at a time; meanwhile other processes wait."""


@frozen
class Migration:
    """Result of a migration.

    Attributes:
        moved: Number of conversations that were moved.
        busy: Ids of conversations that were not moved, because another process uses them.
        duplicates: Ids of those that were not moved, because the id exists in the new place.
    """

    moved: int
    busy: tuple[str, ...]
    duplicates: tuple[str, ...]


@mapping_errors
def migrate(store: DirectoryStore, progress: Progress | None = None) -> Migration:
    """Move the conversations of a store into the shards in which new ones are created.

    Args:
        store: Other processes may use it. Conversations with an active run are not moved.
        progress: Shows the number of conversations.

    Raises:
        StoreError: Another process keeps the store locked, or a conversation cannot be moved.
    """
    pending: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for folder, identity in _survey_misplaced(store.layout):
        pending[name_shard(identity)].append((folder, identity))
    moved, busy, duplicates = 0, list[str](), list[str]()
    if progress is not None and pending:
        progress.start(sum(map(len, pending.values())), "Moving conversations")
    try:
        for shard, folders in sorted(pending.items()):
            for start in range(0, len(folders), _BATCH):
                batch = folders[start : start + _BATCH]
                with store.guards.exclusive_lock():
                    moved += _move(store, shard, batch, busy, duplicates)
                if progress is not None:
                    progress.advance(len(batch))
    finally:
        if progress is not None and pending:
            progress.finish()
    return Migration(moved, tuple(busy), tuple(duplicates))


def _survey_misplaced(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield the folder and the id of each conversation that is not in its shard."""
    try:
        names = os.listdir(layout.root)
    except FileNotFoundError:
        return
    for name in names:
        if is_identity_form(name):
            yield f"{layout.root}/{name}", name
        elif is_shard(name):
            for each in os.listdir(f"{layout.root}/{name}"):
                if is_identity_form(each) and name_shard(each) != name:
                    yield f"{layout.root}/{name}/{each}", each


def _move(
    store: DirectoryStore,
    shard: str,
    folders: list[tuple[str, str]],
    busy: list[str],
    duplicates: list[str],
) -> int:
    """Move some conversations into a shard; the caller has locked the structure."""
    target = f"{store.layout.root}/{shard}"
    make_folders(store.disk, target)
    moved = 0
    for folder, identity in folders:
        if os.path.lexists(f"{target}/{identity}"):
            duplicates.append(identity)
            continue
        with ExitStack() as stack:
            try:
                for name, shared in ((LOCK, False), (RUNS_LOCK, True)):
                    try:
                        # A shared lock, as a process that claims a run then tries again.
                        lock = locks.acquire(f"{folder}/{name}", shared=shared, wait_seconds=0)
                    except FileNotFoundError:  # no run was claimed, or this is not a conversation
                        continue
                    stack.callback(locks.release, lock)
            except StoreError:
                busy.append(identity)
                continue
            store.disk.rename(folder, f"{target}/{identity}")
            moved += 1
    # Once for all, as after a power failure each conversation is in one place or the other.
    store.disk.synchronize_folder(target)
    store.disk.synchronize_folder(store.layout.root)
    return moved
