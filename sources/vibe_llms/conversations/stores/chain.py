"""Reads a conversation together with what it inherits: from the root of its forks to itself.

The caller holds the lock of the structure, so that nobody deletes a parent meanwhile. Parents
may grow: what lies before a fork point does not change.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from vibe_llms.conversations.metadata import ParentLink
from vibe_llms.conversations.stores.descriptors import (
    Table,
    decode_table,
    interpret_table,
    merged_bytes_of,
)
from vibe_llms.conversations.stores.layout import Layout
from vibe_llms.conversations.stores.parts import FilePart
from vibe_llms.exceptions import CorruptionError, UnknownConversationError
from vibe_llms.foundation.files import read_along, read_regular
from vibe_llms.logs.lines import find_torn_start, measure_lines


def read_table(layout: Layout, identity: str) -> Table:
    """Reads the metadata of a conversation. Raises UnknownConversationError, CorruptionError."""
    path = layout.metadata(identity)
    try:
        data = read_regular(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise describe_unknown(layout, identity) from error
    return decode_table(data, path)


def describe_unknown(layout: Layout, identity: str) -> UnknownConversationError:
    """Words that there is no such conversation."""
    return UnknownConversationError(
        identity=identity,
        path=layout.folder(identity),
        remedy="`vibe list` lists the conversations.",
    )


def read_whole_lines(path: str, size: int | None = None) -> bytes:
    """Reads a file of messages up to a size, or all but a torn last line.

    Raises:
        CorruptionError: There is no such file.
    """
    try:
        with read_along(path) as file:
            if size is None:
                # Its lock is not held: an append may be under way, and the end of that does not
                # count.
                size = find_torn_start(file.fileno(), os.fstat(file.fileno()).st_size)
                file.seek(0)  # where there is no `pread`, the look at the end has moved it
            return file.read(size)
    except FileNotFoundError as error:
        raise describe_missing_messages(path) from error


def describe_missing_messages(path: str) -> CorruptionError:
    """Words the loss of the whole file."""
    return CorruptionError(
        path=path, detail="The messages are missing.", remedy="Restore the file from a backup."
    )


class Level(NamedTuple):
    """One conversation in a chain of forks.

    Attributes:
        link: How it hangs on the next one towards the root; ``None`` for the root.
    """

    identity: str
    table: Table
    link: ParentLink | None


def walk_to_root(
    layout: Layout,
    identity: str,
    *,
    table: Table | None = None,
    is_enough: Callable[[ParentLink], bool] = lambda link: False,
) -> list[Level]:
    """Returns the conversation and its ancestors, itself first.

    Args:
        table: Of the conversation, where that was read already.
        is_enough: Tells of a link to a parent whether all that matters of that is known.

    Raises:
        UnknownConversationError: There is no such conversation.
        CorruptionError: An ancestor is missing, or a chain bites its own tail.
    """
    levels: list[Level] = []
    seen: set[str] = set()
    while True:
        if table is None or levels:
            try:
                table = read_table(layout, identity)
            except UnknownConversationError as error:
                if not levels:
                    raise
                # Of an ancestor this is damage: a deletion leaves its forks all that they need.
                raise describe_broken_link(layout, levels[-1], "is missing") from error
        link = interpret_table(table, layout.metadata(identity), None).parent
        levels.append(Level(identity=identity, table=table, link=link))
        seen.add(identity)
        if link is None or is_enough(link):
            return levels
        identity = link.identity
        if identity in seen:
            raise describe_broken_link(layout, levels[-1], "is its own descendant")


def describe_broken_link(layout: Layout, level: Level, trouble: str) -> CorruptionError:
    """Words what is wrong between a fork and its parent."""
    assert level.link is not None
    return CorruptionError(
        path=layout.metadata(level.identity),
        detail=f"The parent {level.link.identity} {trouble}.",
        remedy="The messages of the fork itself are in messages.jsonl next to this file.",
    )


def read_inherited(layout: Layout, levels: list[Level]) -> list[FilePart]:
    """Reads what the first of some levels inherits from the others.

    Raises:
        CorruptionError: A parent is shorter than the point at which it was forked.
    """
    parts: list[FilePart] = []
    # From the root on: each level cuts what is above it at its own fork point.
    for child, parent in reversed(list(pairwise(levels))):
        link = child.link
        assert link is not None
        path = layout.messages(parent.identity)
        size = None if link.bytes is None else merged_bytes_of(parent.table) + link.bytes
        data = read_whole_lines(path, size)
        if len(data) < (size or 0):
            raise describe_broken_link(layout, child, f"has only {len(data)} of {size} bytes")
        parts.append(FilePart(path=path, data=data))
        # These count from the very beginning, unlike bytes: they may end within an ancestor's part.
        if link.canisters is not None and not _cut(parts, link.canisters):
            trouble = f"has fewer than the {link.canisters} canisters at the fork point"
            raise describe_broken_link(layout, child, trouble)
    return parts


def _cut(parts: list[FilePart], count: int) -> bool:
    """Cuts parts after some lines, in place; tells whether there were that many."""
    for index, part in enumerate(parts):
        size = measure_lines(part.data, count)
        if size is not None:
            parts[index:] = [part._replace(data=part.data[:size])]
            return True
        count -= part.data.count(b"\n")
    return False


def count_lines(parts: list[FilePart]) -> int:
    """Returns how many canisters the parts hold."""
    return sum(part.data.count(b"\n") for part in parts)
