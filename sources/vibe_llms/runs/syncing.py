"""Synchronization of two stores: each receives the conversations and messages of the other.

A conversation only grows. If it has grown in both stores, each store receives the other's ending as
a fork, whose id follows from the messages at which the two differ: every machine computes the same
id, so that the next synchronization extends the fork instead of creating another one. No
conversation is deleted or overwritten. Each conversation is copied completely or not at all, and an
interrupted synchronization is completed by the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import attrs

from vibe_llms.conversations.metadata import ConversationMetadata, ParentLink
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import (
    Finding,
    StaleConversationError,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.runs.copying import CopyProgress, order_families
from vibe_llms.runs.snapshots import (
    Snapshot,
    copy_references,
    extend,
    is_prefix,
    plant,
    take_snapshot,
)
from vibe_llms.runs.sync_notes import NoteSynchronizer
from vibe_llms.runs.sync_reports import (
    Change,
    Side,
    SyncChange,
    SyncedLabels,
    SyncReport,
    merge_labels,
)
from vibe_llms.runs.sync_twins import derive_fork, find_twins

_OTHER: Final[dict[Side, Side]] = {"here": "there", "there": "here"}


def sync_stores(
    here: ConversationStore,
    there: ConversationStore,
    *,
    labels: Mapping[str, SyncedLabels] | None = None,
    note_digests: Mapping[str, str] | None = None,
    progress: CopyProgress | None = None,
) -> SyncReport:
    """Copy to each store what only the other one has.

    Other processes may use both stores at the same time. The log of a run is copied once the run is
    at rest and its inbox is empty, so that no other machine executes it. A deleted conversation
    comes back from the other store; a deleted note is deleted there, too.

    Args:
        here: A store.
        there: Another store.
        labels: Names, tags and pins after the last synchronization of both stores; they show on
            which side a conversation was renamed, or lost a tag or a pin.
        note_digests: Digests of notes after the last synchronization; they show on which side a
            note was changed, or written again after it was deleted.
        progress: Called for each conversation.

    Raises:
        StoreError: Both are one store, or a store cannot be read at all.
    """
    if here == there:
        raise StoreError(detail="Cannot synchronize a store with itself.")
    sides: dict[Side, ConversationStore] = {"here": here, "there": there}
    listed = {side: sorted(store.survey()) for side, store in sides.items()}
    # Parents come first, so that their forks can refer to them.
    ordered = dict.fromkeys(
        identity
        for side, store in sides.items()
        for identity in order_families(store, listed[side])
    )
    known = {side: frozenset(identities) for side, identities in listed.items()}
    common = [each for each in ordered if each in known["here"] and each in known["there"]]
    single = [each for each in ordered if each in known["here"] ^ known["there"]]
    synchronizer = _Synchronizer(sides, dict(labels or {}))
    if progress is not None:
        progress.start(len(common) + len(single), "sync")
    try:
        for identity in common:
            synchronizer.compare(identity, identity)
            if progress is not None:
                progress.advance(1)
        ours, theirs = ([each for each in single if each in known[side]] for side in sides)
        for twins in find_twins(here, there, ours, theirs):
            synchronizer.pair(*twins)
        for identity in single:
            synchronizer.copy("here" if identity in known["here"] else "there", identity)
            if progress is not None:
                progress.advance(1)
    finally:
        if progress is not None:
            progress.finish()
    notes = NoteSynchronizer({"here": here.notes, "there": there.notes}, dict(note_digests or {}))
    count = notes.sync()
    return SyncReport(
        changes=tuple(synchronizer.changes),
        conversations=len(common) + len(single),
        refused=(*synchronizer.refused.values(), *notes.refused.values()),
        notes=count,
        note_changes=tuple(notes.changes),
        note_digests=notes.digests,
        notices=tuple(dict.fromkeys([*synchronizer.notices, *notes.notices])),
        labels=synchronizer.labels,
    )


@define(eq=False)
class _Synchronizer:
    """A synchronization in progress.

    Attributes:
        sides: Both stores.
        labels: Names, tags and pins after the last synchronization; updated.
        changes: Changes so far.
        refused: Errors so far, by the ids of the conversations.
        notices: Notices so far.
    """

    sides: dict[Side, ConversationStore]
    labels: dict[str, SyncedLabels]
    changes: list[SyncChange] = attrs.field(factory=list)
    refused: dict[str, Finding] = attrs.field(factory=dict)
    notices: list[Finding] = attrs.field(factory=list)
    _counterparts: dict[tuple[Side, str], str] = attrs.field(factory=dict)
    """Ids on the other side of conversations that have another id there."""

    def compare(self, here: str, there: str, *, common: int = 0) -> None:
        """Bring two versions of a conversation to the same state.

        Args:
            here: Its id here.
            there: Its id there; another one if a version is a fork from an earlier conflict.
            common: Number of messages that both must have in common.
        """
        identities: dict[Side, str] = {"here": here, "there": there}
        for is_last in (False, True):
            try:
                with suppress(UnknownConversationError):  # just deleted
                    pair = {side: self._take(side, each) for side, each in identities.items()}
                    self._reconcile(pair, common)
            except StoreError as error:
                # Another synchronization may have written the same messages since they were read.
                if is_last:
                    self._refuse(here, error)
            else:
                return

    def pair(self, here: str, there: str) -> None:
        """Compare conversations that exist on one side each, as versions of one conversation."""
        keys: set[tuple[Side, str]] = {("here", here), ("there", there)}
        if not keys & self._counterparts.keys():
            self._counterparts[("here", here)] = there
            self._counterparts[("there", there)] = here
            self.compare(here, there)

    def copy(self, side: Side, identity: str) -> None:
        """Copy a conversation that only one side has."""
        if (side, identity) in self._counterparts:
            return  # a fork from a conflict, which is the conversation itself on the other side
        try:
            with suppress(UnknownConversationError):
                snapshot = self._take(side, identity)
                self._plant(_OTHER[side], snapshot, "added")
        except StoreError as error:
            with suppress(StoreError):
                if self._exists(_OTHER[side], identity):  # another synchronization was faster
                    self.compare(identity, identity)
                    return
            self._refuse(identity, error)

    def _take(self, side: Side, identity: str) -> Snapshot:
        """Read a conversation; note that its run is not at rest."""
        snapshot = take_snapshot(self.sides[side], identity)
        self.notices += snapshot.notices
        if not snapshot.is_at_rest:
            self._note(identity, f"Its run {side} is not at rest; its log was not copied.")
        return snapshot

    def _reconcile(self, pair: dict[Side, Snapshot], common: int) -> None:
        lines = {side: snapshot.canister_lines for side, snapshot in pair.items()}
        count = _count_equal(lines["here"], lines["there"])
        if count < common:
            identities = f"{pair['here'].identity} here and {pair['there'].identity} there"
            raise StoreError(detail=f"{identities} should have {common} messages in common.")
        if count < min(map(len, lines.values())):
            self._fork(pair, count)
            return
        key = _find_key(pair["here"].identity, pair["there"].identity)
        last = self.labels.get(key)
        for side, snapshot in pair.items():
            self._extend(side, snapshot, pair[_OTHER[side]], last)
        self._note_labels(key, pair, last)

    def _fork(self, pair: dict[Side, Snapshot], count: int) -> None:
        """Give each side a fork with the ending of the other side."""
        first = {side: snapshot.canisters[count].id for side, snapshot in pair.items()}
        if first["here"] == first["there"]:
            raise StoreError(
                detail=f"Message {count} has the same id on both sides, but another content.",
                remedy="`vibe verify` finds damage.",
            )
        before = pair["here"].canisters[count - 1].id if count else ""
        forks = {side: derive_fork(before, first[side]) for side in pair}
        # Note both first: neither fork is an ordinary conversation of its side.
        for side in pair:
            self._counterparts[(_OTHER[side], forks[side])] = pair[side].identity
            self._counterparts[(side, pair[side].identity)] = forks[side]
        for side, snapshot in pair.items():
            other = _OTHER[side]
            both = {side: snapshot.identity, other: forks[side]}
            if self._exists(other, forks[side]):
                self.compare(both["here"], both["there"], common=count + 1)
                continue
            target = pair[other].identity
            link = ParentLink(identity=target, canisters=count)
            fork = attrs.evolve(
                snapshot,
                identity=forks[side],
                metadata=attrs.evolve(snapshot.metadata, parent=link),
                inherited=count,
                events=(),
                messages=(),
            )
            self._copy_contents(other, fork)
            plant(self.sides[other], fork)
            self.labels[_find_key(both["here"], both["there"])] = SyncedLabels.read(fork.metadata)
            if snapshot.events:
                self._note(fork.identity, f"The log of its runs stays {side}: {snapshot.identity}.")
            self._record(other, "forked", fork, parent=target)

    def _exists(self, side: Side, identity: str) -> bool:
        with suppress(UnknownConversationError):
            self.sides[side].read_metadata(identity)
            return True
        return False

    def _extend(
        self, side: Side, existing: Snapshot, source: Snapshot, last: SyncedLabels | None
    ) -> None:
        """Add to a conversation what its version on the other side has in addition."""
        wanted = attrs.evolve(existing, metadata=_merge_metadata(existing, source, last))
        if len(source.canisters) > len(existing.canisters):
            wanted = attrs.evolve(
                wanted, canisters=source.canisters, canister_lines=source.canister_lines
            )
        if existing.identity == source.identity:
            wanted = self._merge_runs(side, wanted, existing, source)
        if wanted == existing:
            return
        if self.sides[side].keeps_logs and self.sides[side].open_log(existing.identity).is_claimed:
            raise StoreError(
                detail=f"Its run {side} is active.", remedy="Synchronize again when it has ended."
            )
        self._copy_contents(side, attrs.evolve(wanted, inherited=len(existing.canisters)))
        extend(self.sides[side], wanted, existing)
        self._record(side, "extended", wanted)

    def _merge_runs(
        self, side: Side, wanted: Snapshot, existing: Snapshot, source: Snapshot
    ) -> Snapshot:
        """Return a snapshot with the log of the other side, if that is ahead."""
        if not (existing.is_at_rest and source.is_at_rest and self.sides[side].keeps_logs):
            return wanted
        if is_prefix(existing, source):
            return attrs.evolve(wanted, events=source.events)
        if not is_prefix(source, existing):
            self._note(existing.identity, "It has other runs here than there; both logs stay.")
        return wanted

    def _note_labels(self, key: str, pair: dict[Side, Snapshot], last: SyncedLabels | None) -> None:
        """Remember the labels for the next synchronization; report two names or numbers."""
        here, there = (SyncedLabels.read(each.metadata) for each in (pair["here"], pair["there"]))
        mine, theirs = merge_labels(here, there, last), merge_labels(there, here, last)
        agreed = mine
        if mine.name != theirs.name:
            names = f"{mine.name!r} here and {theirs.name!r} there"
            self._note(pair["here"].identity, f"It keeps two names: {names}. Rename one of them.")
            agreed = attrs.evolve(agreed, name=None if last is None else last.name)
        if mine.keep != theirs.keep:
            numbers = f"{mine.keep} here and {theirs.keep} there"
            self._note(pair["here"].identity, f"It keeps two numbers of turns (keep): {numbers}.")
            agreed = attrs.evolve(agreed, keep=None if last is None else last.keep)
        self.labels[key] = agreed

    def _plant(self, side: Side, snapshot: Snapshot, change: Change) -> None:
        """Create a conversation on a side that does not have it."""
        if not (snapshot.is_at_rest and self.sides[side].keeps_logs):
            snapshot = attrs.evolve(snapshot, events=(), messages=())
        parent = self._find_parent(side, snapshot)
        snapshot = attrs.evolve(
            snapshot,
            metadata=attrs.evolve(snapshot.metadata, parent=parent),
            inherited=0 if parent is None else snapshot.inherited,
        )
        self._copy_contents(side, snapshot)
        plant(self.sides[side], snapshot)
        self.labels[snapshot.identity] = SyncedLabels.read(snapshot.metadata)
        self._record(side, change, snapshot)

    def _find_parent(self, side: Side, snapshot: Snapshot) -> ParentLink | None:
        """Return the fork point on another side; ``None`` if the beginning is not there."""
        link, count = snapshot.metadata.parent, snapshot.inherited
        if link is None:
            return None
        for identity in (link.identity, self._counterparts.get((_OTHER[side], link.identity))):
            if identity is not None:
                with suppress(UnknownConversationError):
                    above = self.sides[side].read(identity)
                    if above.canisters[:count] == snapshot.canisters[:count]:
                        return ParentLink(identity=identity, canisters=count)
        return None

    def _copy_contents(self, side: Side, snapshot: Snapshot) -> None:
        copy_references(self.sides[_OTHER[side]], self.sides[side], snapshot.references)

    def _record(self, side: Side, change: Change, snapshot: Snapshot, *, parent: str = "") -> None:
        self.changes.append(
            SyncChange(
                side=side,
                change=change,
                identity=snapshot.identity,
                parent=parent,
                name=snapshot.metadata.name,
            )
        )

    def _refuse(self, identity: str, error: StoreError) -> None:
        if isinstance(error, StaleConversationError):
            error = StoreError(detail=error.describe(), remedy="Run `vibe sync` again.")
        self.refused[identity] = Finding(place=identity, message=str(error))

    def _note(self, identity: str, message: str) -> None:
        self.notices.append(Finding(place=identity, message=message))


def _count_equal(first: Iterable[bytes], second: Iterable[bytes]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def _find_key(here: str, there: str) -> str:
    """Return the key of a pair of conversations in the labels."""
    return here if here == there else f"{here} {there}"


def _merge_metadata(
    existing: Snapshot, source: Snapshot, last: SyncedLabels | None
) -> ConversationMetadata:
    """Return the metadata of a conversation with the changes of the other side."""
    old, new = existing.metadata, source.metadata
    merged = merge_labels(SyncedLabels.read(old), SyncedLabels.read(new), last)
    is_ahead = len(source.canisters) > len(existing.canisters)
    return attrs.evolve(
        old,
        name=merged.name,
        tags=merged.tags,
        keep=merged.keep,
        pinned=merged.pinned,
        model=new.model if old.model is None or (is_ahead and new.model) else old.model,
    )
