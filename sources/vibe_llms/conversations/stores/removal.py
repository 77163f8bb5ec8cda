"""Crash-safe deletion of a conversation that has forks.

The forks first receive what they need. All new files are prepared in the folder ``.deleting``; one
rename, which also moves the deleted conversation into that folder, commits the deletion. Before the
rename nothing has happened, and the folder is discarded. After it the files are moved into place,
which :func:`recover` finishes whenever it finds the folder. Readers look for the folder before they
read. An append looks only for its lock; the locks of all affected conversations are removed before
the commit and restored after the end.
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

_GRAVE = "deleted"  # below `.deleting`: the conversation itself; its presence marks the commit
_NEW_MESSAGES, _NEW_TALLY, _NEW_METADATA = ".messages", ".tally", ".metadata"


@frozen(kw_only=True)
class Bequest:
    """Lines and link that a fork receives from its deleted parent.

    Attributes:
        size: Number of bytes from the start of the parent's own messages.
        link: Link to the rest of its history from now on.
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
    remove_tree(disk, layout.creating)  # no one creates now: these are leftovers
    children = [
        child for child in candidates if child != identity and _is_child(layout, child, identity)
    ]
    with ExitStack() as stack:
        for concerned in (identity, *children):
            _take_lock_away(stack, layout, disk, concerned, wait_seconds)
        _settle(layout, disk, identity)
        disk.make_folder(layout.deleting)
        if children:
            parent = _read_bequeather(layout, identity)
            for child in children:
                _prepare(layout, disk, child, parent)
        # Synchronize both before the rename: the commit must not reach the disk before its files.
        disk.synchronize_folder(layout.deleting)
        disk.synchronize_folder(layout.root)
        folder = layout.folder(identity)
        disk.rename(folder, f"{layout.deleting}/{_GRAVE}")
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
    # If its metadata cannot be read, delete nothing: the fork would lose its beginning permanently.
    table = chain.read_table(layout, child)
    return (table.get("parent") or {}).get("id") == parent


def _take_lock_away(
    stack: ExitStack, layout: Layout, disk: Disk, identity: str, wait_seconds: float
) -> None:
    """Wait for an append in progress, then redirect later ones to :func:`recover`."""
    path = layout.conversation_lock(identity)
    with suppress(FileNotFoundError):  # a crash may leave it so
        stack.callback(locks.release, locks.acquire(path, wait_seconds=wait_seconds))
        disk.remove(path)
    # Otherwise a power failure could restore the lock, and with it appends to the old file.
    disk.synchronize_folder(layout.folder(identity))


def _settle(layout: Layout, disk: Disk, identity: str) -> None:
    """Ensure that the messages end with a complete line, so that others can be appended."""
    with suppress(FileNotFoundError):
        Log(layout.messages(identity), disk).close()


@frozen(kw_only=True)
class _Bequeather:
    merged: int
    link: ParentLink | None
    data: bytes
    inherited: int


def _read_bequeather(layout: Layout, identity: str) -> _Bequeather:
    levels = chain.walk_to_root(layout, identity)
    level = levels[0]
    return _Bequeather(
        merged=merged_bytes_of(level.table),
        link=level.link,
        data=chain.read_whole_lines(layout.messages(identity)),
        inherited=chain.count_lines(chain.read_inherited(layout, levels)),
    )


def _compute_bequest(parent: _Bequeather, link: ParentLink) -> Bequest:
    """Compute what a fork needs of its parent, which may be a fork itself."""
    if link.bytes is not None:
        return Bequest(size=parent.merged + link.bytes, link=parent.link)
    count = link.canisters or 0
    if parent.link is not None and count <= parent.inherited:
        # The fork point is before the parent's own lines: the grandparent has all that is needed.
        return Bequest(size=0, link=ParentLink(identity=parent.link.identity, canisters=count))
    size = measure_lines(parent.data, count - parent.inherited)
    return Bequest(size=len(parent.data) if size is None else size, link=parent.link)


def _prepare(layout: Layout, disk: Disk, child: str, parent: _Bequeather) -> None:
    """Write a fork's new files into the folder of the deletion."""
    table = chain.read_table(layout, child)
    link = interpret_table(table, layout.metadata(child), None).parent
    assert link is not None
    bequest = _compute_bequest(parent, link)
    if bequest.size:
        path = layout.messages(child)
        _settle(layout, disk, child)
        messages = f"{layout.deleting}/{child}{_NEW_MESSAGES}"
        own = chain.read_whole_lines(path)
        if len(parent.data) < bequest.size:
            level = chain.Level(identity=child, table=table, link=link)
            trouble = f"has only {len(parent.data)} of the {bequest.size} bytes that the fork needs"
            raise chain.describe_broken_link(layout, level, trouble)
        # A fork point within an append must end it, or the following lines would appear to be
        # missing.
        shared = end_lines(parent.data[: bequest.size])
        write_new_file(disk, messages, shared + own)
        disk.touch(messages, os.stat(path).st_mtime_ns)  # no canister was appended
        known = read_tally(layout.tally(child))
        # Without an earlier count, do not count now: it would vouch for lines that may be lost.
        if known is not None:
            total = Tally(shared.count(b"\n") + known.lines, len(shared) + known.size)
            write_new_file(disk, f"{layout.deleting}/{child}{_NEW_TALLY}", encode_tally(total))
    metadata = encode_table(replace_parent(table, bequest.link, bequest.size))
    write_new_file(disk, f"{layout.deleting}/{child}{_NEW_METADATA}", metadata)


def recover(layout: Layout, disk: Disk) -> None:
    """Finish a deletion in progress. The caller holds the exclusive structure lock."""
    if not os.path.lexists(layout.deleting):
        return
    if os.path.lexists(f"{layout.deleting}/{_GRAVE}"):
        # Keep this order: while the metadata are here, the fork is known to be unfinished.
        homes = {
            _NEW_MESSAGES: layout.messages,
            _NEW_TALLY: layout.tally,
            _NEW_METADATA: layout.metadata,
        }
        for suffix, home in homes.items():
            for name in sorted(os.listdir(layout.deleting)):
                if name.endswith(suffix):
                    identity = name.removesuffix(suffix)
                    folder = layout.folder(identity)
                    with suppress(OSError):  # lists notice the change
                        disk.touch(os.path.dirname(folder))
                    disk.rename(f"{layout.deleting}/{name}", home(identity))
                    disk.synchronize_folder(folder)
    # Also without a commit: then this discards the prepared files.
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
    # Several processes may create it at the same moment: all of them lock the same file.
    locks.make_lock(path)
