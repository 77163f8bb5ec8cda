"""Crash-safe deletion of a conversation that has forks.

The lines that forks inherit are moved to them. New files for the forks are prepared in the folder
``.deleting``. Then the deleted conversation is moved there, too, by one rename, which commits the
deletion. After a crash before the commit, the folder is removed; after a crash later, the files are
moved into place. :func:`recover` does that whenever the folder exists. Readers check for the folder
before they read. Appends only take the lock of their conversation: so the locks of all affected
conversations are removed before the commit, and restored after the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress

from vibe_llms.conversations.metadata import ParentLink
from vibe_llms.conversations.stores import chain
from vibe_llms.conversations.stores.descriptors import (
    encode_table,
    interpret_table,
    merged_bytes_of,
    replace_parent,
)
from vibe_llms.conversations.stores.layout import Layout
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import read_regular
from vibe_llms.logs import locks
from vibe_llms.logs.disk import Disk, remove_tree, write_new_file
from vibe_llms.logs.lines import end_lines, measure_lines
from vibe_llms.logs.log import Log
from vibe_llms.logs.tallies import Tally, encode_tally, read_tally

_DELETED = "deleted"  # the deleted conversation in `.deleting`; if it exists, this is committed
_NEW_MESSAGES, _NEW_TALLY, _NEW_METADATA = ".messages", ".tally", ".metadata"


@frozen(kw_only=True)
class Inheritance:
    """The lines and the link that a fork receives from its deleted parent.

    Attributes:
        size: Number of bytes from the start of the parent's file.
        link: New link of the fork, to the parent of the deleted conversation; ``None`` if that has
            none.
    """

    size: int
    link: ParentLink | None


def remove_conversation(
    layout: Layout, disk: Disk, identity: str, candidates: Iterable[str], wait_seconds: float
) -> None:
    """Delete a conversation. The caller holds the exclusive structure lock and has recovered.

    Args:
        candidates: Identities of all conversations, to find the forks among them.
    """
    if not os.path.exists(layout.metadata(identity)):
        raise chain.describe_unknown(layout, identity)
    remove_tree(disk, layout.creating)  # left over: with the exclusive lock, no process creates
    children = [
        child for child in candidates if child != identity and _is_child(layout, child, identity)
    ]
    with ExitStack() as stack:
        for affected in (identity, *children):
            _remove_lock(stack, layout, disk, affected, wait_seconds)
        _complete_last_line(layout, disk, identity)
        disk.make_folder(layout.deleting)
        if children:
            parent = _read_parent(layout, identity)
            for child in children:
                _prepare(layout, disk, child, parent)
        # Synchronize before the rename, as the commit must not reach the disk before the files.
        disk.synchronize_folder(layout.deleting)
        disk.synchronize_folder(layout.root)
        folder = layout.folder(identity)
        disk.rename(folder, f"{layout.deleting}/{_DELETED}")
        disk.synchronize_folder(os.path.dirname(folder))  # the rename has changed both folders
        disk.synchronize_folder(layout.deleting)
        recover(layout, disk)


def _is_child(layout: Layout, child: str, parent: str) -> bool:
    path = layout.metadata(child)
    try:
        data = read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    if parent.encode() not in data:  # far cheaper than parsing the TOML of all conversations
        return False
    # Raises an error if the metadata cannot be read, as the fork would lose its beginning.
    table = chain.read_table(layout, child)
    return (table.get("parent") or {}).get("id") == parent


def _remove_lock(
    stack: ExitStack, layout: Layout, disk: Disk, identity: str, wait_seconds: float
) -> None:
    """Remove the lock file, after an append in progress.

    Later appends do not find it, and so wait for :func:`recover`.
    """
    path = layout.conversation_lock(identity)
    with suppress(FileNotFoundError):  # it may be missing after a crash
        stack.callback(locks.release, locks.acquire(path, wait_seconds=wait_seconds))
        disk.remove(path)
    # Otherwise a power failure could restore the lock, and so allow appends to the old file.
    disk.synchronize_folder(layout.folder(identity))


def _complete_last_line(layout: Layout, disk: Disk, identity: str) -> None:
    """Ensure that the messages end with a complete line, so that others can be appended."""
    with suppress(FileNotFoundError):
        Log(layout.messages(identity), disk).close()


@frozen(kw_only=True)
class _DeletedParent:
    merged: int
    link: ParentLink | None
    data: bytes
    inherited: int


def _read_parent(layout: Layout, identity: str) -> _DeletedParent:
    levels = chain.walk_to_root(layout, identity)
    level = levels[0]
    return _DeletedParent(
        merged=merged_bytes_of(level.table),
        link=level.link,
        data=chain.read_whole_lines(layout.messages(identity)),
        inherited=chain.count_lines(chain.read_inherited(layout, levels)),
    )


def _compute_inheritance(parent: _DeletedParent, link: ParentLink) -> Inheritance:
    """Compute what a fork receives from its parent, which may be a fork itself."""
    if link.bytes is not None:
        return Inheritance(size=parent.merged + link.bytes, link=parent.link)
    count = link.canisters or 0
    if parent.link is not None and count <= parent.inherited:
        # The fork point is in the part that the parent inherits: the grandparent has all needed
        # lines.
        return Inheritance(size=0, link=ParentLink(identity=parent.link.identity, canisters=count))
    size = measure_lines(parent.data, count - parent.inherited)
    return Inheritance(size=len(parent.data) if size is None else size, link=parent.link)


def _prepare(layout: Layout, disk: Disk, child: str, parent: _DeletedParent) -> None:
    """Write a fork's new files into the folder of the deletion."""
    table = chain.read_table(layout, child)
    link = interpret_table(table, layout.metadata(child), None).parent
    assert link is not None
    inheritance = _compute_inheritance(parent, link)
    if inheritance.size:
        path = layout.messages(child)
        _complete_last_line(layout, disk, child)
        messages = f"{layout.deleting}/{child}{_NEW_MESSAGES}"
        own_lines = chain.read_whole_lines(path)
        if len(parent.data) < inheritance.size:
            level = chain.Level(identity=child, table=table, link=link)
            problem = (
                f"has only {len(parent.data)} of the {inheritance.size} bytes that the fork needs"
            )
            raise chain.describe_broken_link(layout, level, problem)
        # The fork point may be inside of an append: mark its last line as the end of the append, so
        # that the following lines do not count as missing.
        shared = end_lines(parent.data[: inheritance.size])
        write_new_file(disk, messages, shared + own_lines)
        disk.touch(messages, os.stat(path).st_mtime_ns)  # no canister was appended
        known = read_tally(layout.tally(child))
        # Without a tally, none is written: lines may be lost already, and it would hide that.
        if known is not None:
            total = Tally(shared.count(b"\n") + known.lines, len(shared) + known.size)
            write_new_file(disk, f"{layout.deleting}/{child}{_NEW_TALLY}", encode_tally(total))
    metadata = encode_table(replace_parent(table, inheritance.link, inheritance.size))
    write_new_file(disk, f"{layout.deleting}/{child}{_NEW_METADATA}", metadata)


def recover(layout: Layout, disk: Disk) -> None:
    """Finish a deletion in progress. The caller holds the exclusive structure lock."""
    if not os.path.lexists(layout.deleting):
        return
    if os.path.lexists(f"{layout.deleting}/{_DELETED}"):
        # The metadata are moved last: while they are in this folder, the other files of the fork
        # are moved again.
        targets = {
            _NEW_MESSAGES: layout.messages,
            _NEW_TALLY: layout.tally,
            _NEW_METADATA: layout.metadata,
        }
        for suffix, compose_target in targets.items():
            for name in sorted(os.listdir(layout.deleting)):
                if name.endswith(suffix):
                    identity = name.removesuffix(suffix)
                    folder = layout.folder(identity)
                    with suppress(OSError):  # so that the index detects the change
                        disk.touch(os.path.dirname(folder))
                    disk.rename(f"{layout.deleting}/{name}", compose_target(identity))
                    disk.synchronize_folder(folder)
    # Without a commit, this discards the prepared files.
    remove_tree(disk, layout.deleting)
    disk.synchronize_folder(layout.root)


def restore_lock(layout: Layout, identity: str) -> None:
    """Recreate a conversation's lock. The caller shares the structure lock and has recovered.

    Raises:
        UnknownConversationError: The conversation was deleted.
    """
    path = layout.conversation_lock(identity)
    if not os.path.exists(layout.metadata(identity)):
        raise chain.describe_unknown(layout, identity)
    # If several processes create the file at the same time, all processes get one file.
    locks.make_lock(path)
