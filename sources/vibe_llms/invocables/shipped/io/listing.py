"""Going through directories, in bounds, without following links."""

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
from vibe_llms.invocables.shipped.grants import READING, Place, show
from vibe_llms.invocables.shipped.opening import describe_kind, open_directory

ENTRIES_LIMIT: Final = 100_000
"""How many entries of directories one call looks at."""

DEPTH_LIMIT: Final = 50
"""How deep below its beginning one call goes; each level is a descriptor meanwhile."""

SECONDS: Final = 20.0
"""How long one call goes on before it returns what it has."""

LISTED_LIMIT: Final = 1_000
"""How many entries one listing shows."""


@frozen
class DirectoryEntry:
    """Something in a directory.

    Attributes:
        place: Good for as long as the visit goes on to the next.
        found: What it is.
        depth: 1 for what is in the directory where the visit began.
    """

    place: Place
    found: os.stat_result
    depth: int

    @property
    def is_directory(self) -> bool:
        """Whether it is one; a link to one is not."""
        return stat.S_ISDIR(self.found.st_mode)


class DirectoryWalk:
    """Goes through a directory and those below it, in the order of their names.

    Args:
        place: Where it begins.
        depth: How deep it goes: 1 for the directory alone.
        passed_over: Names of directories that are not gone into.

    Attributes:
        notes: What was left out, for the model.
    """

    def __init__(
        self,
        place: Place,
        context: InvocationContext,
        *,
        depth: int = DEPTH_LIMIT,
        passed_over: frozenset[str] = frozenset(),
    ) -> None:
        self.notes: list[str] = []
        self._place = place
        self._context = context
        self._depth = min(depth, DEPTH_LIMIT)
        self._is_cut_here = depth > DEPTH_LIMIT
        self._passed_over = passed_over
        self._entries = 0
        self._until = time.monotonic() + SECONDS

    def survey(self) -> Iterator[DirectoryEntry]:
        """Gives the entries; what it opened is closed when it is left.

        Raises:
            Refusal: The place is no directory that can be opened.
        """
        with open_directory(self._place) as descriptor:
            prefix = "" if self._place.shown == "." else f"{self._place.shown}/"
            yield from self._survey(descriptor, prefix, 1)

    def note(self, text: str) -> None:
        """Adds a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def _survey(self, descriptor: int, prefix: str, depth: int) -> Iterator[DirectoryEntry]:
        for name in self._list(descriptor):
            if self._is_over():
                return
            shown = f"{prefix}{show(name)}"
            place = attrs.evolve(self._place, directory=descriptor, name=name, shown=shown)
            found = place.inspect()
            if found is None:  # gone meanwhile
                continue
            entry = DirectoryEntry(place, found, depth)
            yield entry
            if entry.is_directory and name not in self._passed_over:
                yield from self._descend(entry, prefix)

    def _list(self, descriptor: int) -> list[str]:
        """Returns the names in a directory, no more of them than may be looked at."""
        names: list[str] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries > ENTRIES_LIMIT:
                    self.note(f"more than {ENTRIES_LIMIT} entries: the rest is not listed")
                    break
                names.append(entry.name)
        # The system's own order differs from machine to machine.
        return sorted(names)

    def _descend(self, entry: DirectoryEntry, prefix: str) -> Iterator[DirectoryEntry]:
        if entry.depth >= self._depth:
            if self._is_cut_here or self._depth == DEPTH_LIMIT:
                self.note(f"levels below {DEPTH_LIMIT} directories are not listed")
            return
        place = entry.place
        try:
            # By descriptor and without following links: what was a directory may be a link by now.
            below = os.open(place.name, READING, dir_fd=place.directory)
        except OSError as error:
            self.note(f"cannot open {place.shown}: {error.strerror}")
            return
        try:
            yield from self._survey(below, f"{prefix}{show(place.name)}/", entry.depth + 1)
        finally:
            os.close(below)

    def _is_over(self) -> bool:
        if self._context.cancelled:
            return True
        if time.monotonic() > self._until:
            self.note(f"stopped after {SECONDS:g} seconds: the rest is not listed")
            return True
        return False


def list_directory(place: Place, depth: int, context: InvocationContext) -> str:
    """Lists a directory: one entry a line, with what it is.

    Raises:
        Refusal: It is none.
    """
    if depth < 1:
        raise Refusal("depth must be a whole number of at least 1.")
    visit = DirectoryWalk(place, context, depth=depth)
    lines: list[str] = []
    for entry in visit.survey():
        if len(lines) == LISTED_LIMIT:
            visit.note(f"only the first {LISTED_LIMIT} entries are listed")
            break
        lines.append(_describe(entry))
    lines = lines or ["[the directory is empty]"]
    return "\n".join([*lines, *(f"[{note}]" for note in visit.notes)])


def _describe(entry: DirectoryEntry) -> str:
    shown, mode = entry.place.shown, entry.found.st_mode
    if stat.S_ISREG(mode):
        return f"{shown}  {entry.found.st_size} bytes"
    if stat.S_ISDIR(mode):
        return f"{shown}/"
    if stat.S_ISLNK(mode):
        target = "?"
        with suppress(OSError):
            target = show(os.readlink(entry.place.name, dir_fd=entry.place.directory))
        return f"{shown} -> {target}"
    return f"{shown}  ({describe_kind(mode) or 'something special'})"
