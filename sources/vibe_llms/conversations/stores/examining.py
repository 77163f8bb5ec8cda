"""Verification of a conversation in a directory: its own lines, their number, and its link."""

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
    """Extent of the history that a conversation offers to its forks.

    It stays valid while others append and delete: a history only grows, and a fork that receives
    the lines of a deleted parent keeps the same history.

    Attributes:
        inherited: Number of lines before its own.
        merged: Number of its own bytes that were merged from deleted parents.
        ends: End offset of each of its own lines.
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
        if size > (self.ends[-1] if self.ends else 0):
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
        with self.guards.together():
            table = chain.read_table(self.layout, identity)
            with self.guards.opened(identity, reading=True) as log:
                data = log.read()
                loss = tallies.find_loss(self.layout.tally(identity), data.count(b"\n"), path)
            trouble = self._prove_link(identity, table, data)
        part = parts.FilePart(path=path, data=data)
        canisters, damages = parts.decode_part(part, tolerant=True)
        findings = [*log.notices, *damages, *find_doubles(path, canisters)]
        findings += [loss] if loss else []
        findings += [Finding(place=trouble.path, message=trouble.detail)] if trouble else []
        return Examination(
            canisters=len(canisters),
            references=find_required(canisters),
            findings=tuple(findings),
            remarks=tuple(self._remark(identity)),
        )

    def _remark(self, identity: str) -> list[Finding]:
        """Report unknown facts and lines that were set aside."""
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

    def _prove_link(self, identity: str, table: Table, data: bytes) -> CorruptionError | None:
        """Measure a conversation, and those of its ancestors that were not measured yet."""
        try:
            descent = chain.walk_to_root(self.layout, identity, table=table, is_enough=self._offers)
        except CorruptionError as error:
            return error
        # Ancestors first: to measure a fork takes the extent of its parent.
        for level in reversed(descent):
            own = data if level.identity == identity else None
            try:
                self.seen[level.identity] = self._measure(level, own)
            except CorruptionError as error:
                return error
        return None

    def _offers(self, link: ParentLink) -> bool:
        """Return whether the known extent of a parent suffices; it may have grown since."""
        known = self.seen.get(link.identity)
        return isinstance(known, Extent) and known.count(link) is not None

    def _measure(self, level: chain.Level, data: bytes | None) -> Extent:
        inherited = 0
        if level.link is not None:
            parent = self.seen[level.link.identity]
            assert isinstance(parent, Extent)
            count = parent.count(level.link)
            if count is None:
                raise chain.describe_broken_link(self.layout, level, _word_lack(level.link))
            inherited = count
        if data is None:
            data = chain.read_whole_lines(self.layout.messages(level.identity))
        # Eight bytes per line: verifying the whole store keeps this for every conversation.
        ends = array("Q", accumulate(len(line) + 1 for line in data.split(b"\n")[:-1]))
        return Extent(inherited=inherited, merged=merged_bytes_of(level.table), ends=ends)


def _word_lack(link: ParentLink) -> str:
    if link.bytes is None:
        return f"has fewer than the {link.canisters} canisters at the fork point"
    return f"has fewer than the {link.bytes} bytes at the fork point"


def find_doubles(place: str, canisters: Sequence[AnyCanister]) -> list[Finding]:
    """Find canisters that occur in a file more than once; ids must be unique."""
    counts = Counter(canister.id for canister in canisters)
    doubled = [(name, count) for name, count in counts.items() if count > 1]
    if not doubled:
        return []
    name, count = doubled[0]
    others = f", and {len(doubled) - 1} more are repeated" if len(doubled) > 1 else ""
    message = f"The canister {name} occurs {count} times{others}. Restore it from a backup."
    return [Finding(place=place, message=message)]
