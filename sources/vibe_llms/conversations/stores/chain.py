"""Read a conversation with its inherited history, from its file and the files of its ancestors.

The caller holds the lock of the store's structure, so that no parent is deleted concurrently.
Parents may grow; the part before a fork point does not change.
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
from vibe_llms.foundation.files import open_reader, read_regular
from vibe_llms.logs.lines import find_torn_start, measure_lines


def read_table(layout: Layout, identity: str) -> Table:
    """Read the metadata of a conversation. Raises UnknownConversationError, CorruptionError."""
    path = layout.metadata(identity)
    try:
        data = read_regular(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise describe_unknown(layout, identity) from error
    return decode_table(data, path)


def describe_unknown(layout: Layout, identity: str) -> UnknownConversationError:
    """Create the error of an unknown conversation."""
    return UnknownConversationError(
        identity=identity,
        path=layout.folder(identity),
        remedy="`vibe list` lists the conversations.",
    )


def read_whole_lines(path: str, size: int | None = None) -> bytes:
    """Read a file of messages up to a size, or completely without an incomplete last line.

    Raises:
        CorruptionError: The file does not exist.
    """
    try:
        with open_reader(path) as file:
            if size is None:
                # Its lock is not held, so an append may be in progress: leave out an incomplete
                # line.
                size = find_torn_start(file.fileno(), os.fstat(file.fileno()).st_size)
                file.seek(0)  # without `pread`, reading the end has moved the position
            return file.read(size)
    except FileNotFoundError as error:
        raise describe_missing_messages(path) from error


def describe_missing_messages(path: str) -> CorruptionError:
    """Create the error that the whole file is missing."""
    return CorruptionError(
        path=path, detail="The messages are missing.", remedy="Restore the file from a backup."
    )


class Level(NamedTuple):
    """One conversation in a chain of forks.

    Attributes:
        identity: Id of the conversation.
        table: Its metadata.
        link: Link to its parent; ``None`` for the root.
    """

    identity: str
    table: Table
    link: ParentLink | None


def walk_to_root(
    layout: Layout,
    identity: str,
    *,
    table: Table | None = None,
    ends_at: Callable[[ParentLink], bool] = lambda link: False,
) -> list[Level]:
    """Return the conversation and its ancestors, itself first.

    Args:
        table: Metadata table of the conversation, if it was already read.
        ends_at: Returns true if the walk ends before the parent of a link.

    Raises:
        UnknownConversationError: The conversation does not exist.
        CorruptionError: An ancestor is missing, or the chain has a cycle.
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
                # A missing ancestor is damage, as deleting a conversation moves what its forks need
                # to them.
                raise describe_broken_link(layout, levels[-1], "is missing") from error
        link = interpret_table(table, layout.metadata(identity), None).parent
        levels.append(Level(identity=identity, table=table, link=link))
        seen.add(identity)
        if link is None or link.canisters == 0 or ends_at(link):  # 0: inherits nothing
            return levels
        identity = link.identity
        if identity in seen:
            raise describe_broken_link(layout, levels[-1], "is its own descendant")


def describe_broken_link(layout: Layout, level: Level, problem: str) -> CorruptionError:
    """Create the error of a broken link between a fork and its parent."""
    assert level.link is not None
    return CorruptionError(
        path=layout.metadata(level.identity),
        detail=f"The parent {level.link.identity} {problem}.",
        remedy="The messages of the fork itself are in messages.jsonl next to this file.",
    )


def read_inherited(layout: Layout, levels: list[Level]) -> list[FilePart]:
    """Read the part that the first level inherits from the others.

    Raises:
        CorruptionError: A parent is shorter than the point at which it was forked.
    """
    parts: list[FilePart] = []
    # From the root on: each level truncates the levels above it at its own fork point.
    for child, parent in reversed(list(pairwise(levels))):
        link = child.link
        assert link is not None
        path = layout.messages(parent.identity)
        size = None if link.bytes is None else merged_bytes_of(parent.table) + link.bytes
        data = read_whole_lines(path, size)
        if len(data) < (size or 0):
            raise describe_broken_link(layout, child, f"has only {len(data)} of {size} bytes")
        parts.append(FilePart(path=path, data=data))
        # Canisters are counted from the beginning of the history, unlike bytes, so the fork point
        # may be within the part of an ancestor.
        if link.canisters is not None and not _truncate(parts, link.canisters):
            problem = f"has fewer than the {link.canisters} canisters at the fork point"
            raise describe_broken_link(layout, child, problem)
    return parts


def _truncate(parts: list[FilePart], count: int) -> bool:
    """Truncate parts after some lines, in place; return whether they have that many lines."""
    for index, part in enumerate(parts):
        size = measure_lines(part.data, count)
        if size is not None:
            parts[index:] = [part._replace(data=part.data[:size])]
            return True
        count -= part.data.count(b"\n")
    return False


def count_lines(parts: list[FilePart]) -> int:
    """Return the number of canisters in the parts."""
    return sum(part.data.count(b"\n") for part in parts)
