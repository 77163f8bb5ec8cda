"""Directory traversal within limits, which does not follow links."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.refusals import Refusal
from vibe_llms.invocables.shipped.grants import READING, GrantedPath, show
from vibe_llms.invocables.shipped.opening import describe_kind, open_directory

ENTRIES_LIMIT: Final = 100_000
"""Maximum number of directory entries examined in one call."""

DEPTH_LIMIT: Final = 50
"""Maximum depth of one call; the traversal keeps a descriptor open for each level."""

SECONDS: Final = 20.0
"""Time after which a call returns the results so far."""

LISTED_LIMIT: Final = 1_000
"""Maximum number of entries shown in one listing."""


@frozen
class DirectoryEntry:
    """An entry of a directory.

    Attributes:
        target: The path of the entry, valid until the traversal yields the next one.
        status: The status of the entry.
        depth: Depth of the entry: 1 for the entries of the first directory.
    """

    target: GrantedPath
    status: os.stat_result
    depth: int

    @property
    def is_directory(self) -> bool:
        """True for a directory; false for a link to one."""
        return stat.S_ISDIR(self.status.st_mode)


class DirectoryWalk:
    """Traverses a directory and its subdirectories, in the order of their names.

    Args:
        target: The first directory.
        depth: Maximum depth: 1 for the directory alone.
        skipped: Names of skipped directories.

    Attributes:
        notes: Notes for the model about omissions.
    """

    def __init__(
        self,
        target: GrantedPath,
        context: InvocationContext,
        *,
        depth: int = DEPTH_LIMIT,
        skipped: frozenset[str] = frozenset(),
    ) -> None:
        self.notes: list[str] = []
        self._target = target
        self._context = context
        self._depth = min(depth, DEPTH_LIMIT)
        self._exceeds_limit = depth > DEPTH_LIMIT
        self._skipped = skipped
        self._entries = 0
        self._deadline = time.monotonic() + SECONDS

    def survey(self) -> Iterator[DirectoryEntry]:
        """Yield the entries; closes the opened directories at the end.

        Raises:
            Refusal: The target is not a directory that can be opened.
        """
        with open_directory(self._target) as descriptor:
            prefix = "" if self._target.shown == "." else f"{self._target.shown}/"
            yield from self._survey(descriptor, prefix, 1)

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def _survey(self, descriptor: int, prefix: str, depth: int) -> Iterator[DirectoryEntry]:
        for name in self._list(descriptor):
            if self._is_over():
                return
            shown = f"{prefix}{show(name)}"
            target = attrs.evolve(self._target, directory=descriptor, name=name, shown=shown)
            status = target.inspect()
            if status is None:  # removed in between
                continue
            entry = DirectoryEntry(target, status, depth)
            yield entry
            if entry.is_directory and name not in self._skipped:
                yield from self._descend(entry, prefix)

    def _list(self, descriptor: int) -> list[str]:
        """Return the names in a directory, up to the limit."""
        names: list[str] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries > ENTRIES_LIMIT:
                    self.note(f"more than {ENTRIES_LIMIT} entries: the rest is not listed")
                    break
                names.append(entry.name)
        # Sorted, because the order of the operating system differs between machines.
        return sorted(names)

    def _descend(self, entry: DirectoryEntry, prefix: str) -> Iterator[DirectoryEntry]:
        if entry.depth >= self._depth:
            if self._exceeds_limit or self._depth == DEPTH_LIMIT:
                self.note(f"levels below {DEPTH_LIMIT} directories are not listed")
            return
        target = entry.target
        try:
            # Without following links, because the directory may have been replaced with a link.
            descriptor = os.open(target.name, READING, dir_fd=target.directory)
        except OSError as error:
            self.note(f"cannot open {target.shown}: {error.strerror}")
            return
        try:
            yield from self._survey(descriptor, f"{prefix}{show(target.name)}/", entry.depth + 1)
        finally:
            os.close(descriptor)

    def _is_over(self) -> bool:
        if self._context.cancelled:
            return True
        if time.monotonic() > self._deadline:
            self.note(f"stopped after {SECONDS:g} seconds: the rest is not listed")
            return True
        return False


def list_directory(target: GrantedPath, depth: int, context: InvocationContext) -> str:
    """List a directory: an entry and its type per line.

    Raises:
        Refusal: The target is not a directory.
    """
    if depth < 1:
        raise Refusal("depth must be a whole number of at least 1.")
    walk = DirectoryWalk(target, context, depth=depth)
    lines: list[str] = []
    for entry in walk.survey():
        if len(lines) == LISTED_LIMIT:
            walk.note(f"only the first {LISTED_LIMIT} entries are listed")
            break
        lines.append(_describe(entry))
    lines = lines or ["[the directory is empty]"]
    return "\n".join([*lines, *(f"[{note}]" for note in walk.notes)])


def _describe(entry: DirectoryEntry) -> str:
    shown, mode = entry.target.shown, entry.status.st_mode
    if stat.S_ISREG(mode):
        return f"{shown}  {entry.status.st_size} bytes"
    if stat.S_ISDIR(mode):
        return f"{shown}/"
    if stat.S_ISLNK(mode):
        target = "?"
        with suppress(OSError):
            target = show(os.readlink(entry.target.name, dir_fd=entry.target.directory))
        return f"{shown} -> {target}"
    return f"{shown}  ({describe_kind(mode) or 'something special'})"
