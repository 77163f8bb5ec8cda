"""Verify a conversation in a directory: lines, number of lines, and the link to its parent."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from vibe_llms.conversations.canister_media import find_required
from vibe_llms.conversations.metadata import ParentLink
from vibe_llms.conversations.stores import chain, parts
from vibe_llms.conversations.stores.descriptors import Table, merged_bytes_of
from vibe_llms.conversations.stores.guards import Guards
from vibe_llms.conversations.stores.interfaces import Examination, Seen
from vibe_llms.conversations.stores.layout import Layout
from vibe_llms.exceptions import CorruptionError, Finding
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.logs import tallies
from vibe_llms.messages.canisters import AnyCanister


@frozen(kw_only=True)
class Extent:
    """Lengths of a conversation's history, to verify the fork points of its forks.

    The measurements stay valid while other processes append and delete: a history only grows, and
    if a parent is deleted, its lines are moved to the fork, whose history does not change.

    Attributes:
        inherited: Number of inherited lines.
        merged: Number of bytes in the file that were merged from deleted parents.
        ends: End offset of each line in the file.
    """

    inherited: int
    merged: int
    ends: array[int]

    def count(self, link: ParentLink) -> int | None:
        """Return the number of lines that a fork shares; ``None`` if there are fewer."""
        if link.bytes is None:
            count = link.canisters or 0
            return count if count <= self.inherited + len(self.ends) else None
        size = self.merged + link.bytes
        known_size = self.ends[-1] if self.ends else 0
        if size > known_size:
            return None
        return self.inherited + bisect_right(self.ends, size)


@frozen
class Examiner:
    """Verifier of conversations.

    Attributes:
        seen: Cache of measured extents, by identity, so that the parents of many forks are read
            once.
    """

    layout: Layout
    guards: Guards
    seen: Seen

    def examine(self, identity: str) -> Examination:
        """Verify one conversation."""
        path = self.layout.messages(identity)
        with self.guards.shared_lock():
            table = chain.read_table(self.layout, identity)
            with self.guards.opened(identity, reading=True) as log:
                data = log.read()
                loss = tallies.find_loss(self.layout.tally(identity), data.count(b"\n"), path)
            link_error = self._examine_link(identity, table, data)
        part = parts.FilePart(path=path, data=data)
        canisters, damages = parts.decode_part(part, tolerant=True)
        findings = [*log.notices, *damages, *find_duplicates(path, canisters)]
        findings += [loss] if loss else []
        findings += (
            [Finding(place=link_error.path, message=link_error.detail)] if link_error else []
        )
        return Examination(
            canisters=len(canisters),
            references=find_required(canisters),
            findings=tuple(findings),
            remarks=tuple(self._remark(identity)),
        )

    def _remark(self, identity: str) -> list[Finding]:
        """Report facts that cannot be verified, and files with incomplete lines."""
        folder = self.layout.folder(identity)
        remarks = []
        if tallies.read_tally(self.layout.tally(identity)) is None:
            message = "Its lines were not counted yet, so a missing end cannot be detected."
            remarks.append(Finding(place=self.layout.messages(identity), message=message))
        for name in sorted(os.listdir(folder)):
            if ".torn-" in name:
                message = "This file contains an incomplete line after a crash; it was moved here."
                remarks.append(Finding(place=f"{folder}/{name}", message=message))
        return remarks

    # --- the link ----------------------------------------------------------------------------

    def _examine_link(self, identity: str, table: Table, data: bytes) -> CorruptionError | None:
        """Measure a conversation, and ancestors that were not measured yet."""
        try:
            levels = chain.walk_to_root(
                self.layout, identity, table=table, ends_at=self._is_measured
            )
        except CorruptionError as error:
            return error
        # Ancestors first, as measuring a fork requires the extent of its parent.
        for level in reversed(levels):
            own = data if level.identity == identity else None
            try:
                self.seen[level.identity] = self._measure(level, own)
            except CorruptionError as error:
                return error
        return None

    def _is_measured(self, link: ParentLink) -> bool:
        """Return whether the cached extent of a parent includes the fork point.

        If not, the parent may have grown since, and is measured again.
        """
        known = self.seen.get(link.identity)
        return isinstance(known, Extent) and known.count(link) is not None

    def _measure(self, level: chain.Level, data: bytes | None) -> Extent:
        inherited = 0
        if level.link is not None and level.link.canisters != 0:
            parent = self.seen[level.link.identity]
            assert isinstance(parent, Extent)
            count = parent.count(level.link)
            if count is None:
                raise chain.describe_broken_link(self.layout, level, _describe_shortage(level.link))
            inherited = count
        if data is None:
            data = chain.read_whole_lines(self.layout.messages(level.identity))
        # Eight bytes per line: verifying the whole store keeps this for every conversation.
        ends = array("Q", accumulate(len(line) + 1 for line in data.split(b"\n")[:-1]))
        return Extent(inherited=inherited, merged=merged_bytes_of(level.table), ends=ends)


def _describe_shortage(link: ParentLink) -> str:
    if link.bytes is None:
        return f"has fewer than the {link.canisters} canisters at the fork point"
    return f"has fewer than the {link.bytes} bytes at the fork point"


def find_duplicates(place: str, canisters: Sequence[AnyCanister]) -> list[Finding]:
    """Report canisters whose id occurs in a file more than once."""
    counts = Counter(canister.id for canister in canisters)
    duplicates = [(name, count) for name, count in counts.items() if count > 1]
    if not duplicates:
        return []
    name, count = duplicates[0]
    others = f", and {len(duplicates) - 1} more are repeated" if len(duplicates) > 1 else ""
    message = f"The canister {name} occurs {count} times{others}. Restore it from a backup."
    return [Finding(place=place, message=message)]
