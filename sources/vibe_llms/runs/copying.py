"""Copying of a store to another: conversations, logs and inboxes of runs, content and notes.

Copied data is read back from the target, and both sides are counted and hashed, so a copy is
verified. It may be repeated, and then adds only new data. It never overwrites data that only the
target has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias, get_args

import attrs

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.codec import encode_event
from vibe_llms.exceptions import Finding, StoreError, UnknownConversationError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.messages.codec.canonical import encode_document
from vibe_llms.runs.snapshots import (
    Snapshot,
    copy_content,
    copy_references,
    extend,
    is_prefix,
    plant,
    take_snapshot,
)

Kind: TypeAlias = Literal["conversations", "canisters", "events", "messages", "notes", "contents"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


class CopyProgress(Protocol):
    """Progress listener of a copy, in conversations."""

    def start(self, total: int | None, label: str) -> None:
        """Start with a total number to copy."""

    def advance(self, amount: int) -> None:
        """Advance by a number of copied conversations."""

    def finish(self) -> None:
        """Finish, after all were copied or the copy was aborted."""


@frozen(kw_only=True)
class SideSum:
    """Count and digest of one kind of data on one side.

    Attributes:
        count: Number of items.
        digest: SHA-256 over all of them, in a fixed order.
    """

    count: int
    digest: str


@frozen(kw_only=True)
class Comparison:
    """Comparison of both sides for one kind of data."""

    kind: Kind
    source: SideSum
    target: SideSum


@frozen(kw_only=True)
class CopyReport:
    """Result of a copy.

    Attributes:
        comparisons: Comparisons of what was read from the source and read back from the target.
        added: Ids of the conversations that were new to the target.
        extended: Ids of those that the target had, and that have grown since.
        working: Ids of those whose run was active or was cut off: what the run does later is not
            in the copy.
        refused: Conversations and content that were not copied, with reasons.
        notices: Notices from the copy.
    """

    comparisons: tuple[Comparison, ...]
    added: tuple[str, ...]
    extended: tuple[str, ...]
    working: tuple[str, ...]
    refused: tuple[Finding, ...]
    notices: tuple[Finding, ...]

    @property
    def is_whole(self) -> bool:
        """True if all data read from the source was read back from the target."""
        return not self.refused and all(each.source == each.target for each in self.comparisons)


def copy_store(
    source: ConversationStore,
    target: ConversationStore,
    *,
    identities: Sequence[str] | None = None,
    progress: CopyProgress | None = None,
) -> CopyReport:
    """Copy all data of a store to another, and verify the copy.

    Other processes may use both stores at the same time. In a directory and in a database, a new
    conversation is copied whole or not at all, even if the copy is interrupted; a conversation
    that has grown is extended.

    If source and target are one database, whose content the target's URL places elsewhere, only
    the content is moved there.

    A note that differs from one with the same name in the target is not copied, and reported.

    Args:
        identities: Copy only these conversations, the conversations from which they were forked,
            and referenced content; by default everything.
        progress: Called for each conversation.

    Raises:
        StoreError: Source and target are one store, or a store cannot be read at all.
    """
    if source == target:
        return _move_contents(source, target)
    target.survey()  # reports an unreachable store once, not per conversation
    # List all ids before anything is read. The parent of a listed fork exists already, with all
    # canisters that the fork inherits, so it can be read at any time.
    chosen = sorted(source.survey()) if identities is None else identities
    ordered = order_families(source, chosen)
    copier = _Copier(source, target)
    if progress is not None:
        progress.start(len(ordered), "copy")
    try:
        for identity in ordered:
            copier.copy(identity)
            if progress is not None:
                progress.advance(1)
        copier.copy_contents(source.contents.survey() if identities is None else ())
        if identities is None:
            copier.copy_notes()
    finally:
        if progress is not None:
            progress.finish()
    return copier.report()


def _move_contents(source: ConversationStore, target: ConversationStore) -> CopyReport:
    """Move the content of a database to the place given in the target's URL."""
    here, there = source.content_backends, target.content_backends
    if here is None or there is None or here.address == there.address:
        raise StoreError(detail="Cannot copy a store into itself.")
    copier = _Copier(source, target)
    copier.copy_each_content(source.contents.survey(), there.bring)
    return copier.report()


def order_families(store: ConversationStore, identities: Sequence[str]) -> list[str]:
    """Return the conversations, parents before their forks."""
    ordered: dict[str, None] = {}
    for identity in identities:
        line: list[str] = []
        above: str | None = identity
        while above is not None and above not in ordered and above not in line:
            line.append(above)
            above = _find_parent(store, above)
        ordered.update(dict.fromkeys(reversed(line)))
    return list(ordered)


def _find_parent(store: ConversationStore, identity: str) -> str | None:
    try:
        link = store.read_metadata(identity).parent
    except StoreError:  # reported when it is read
        return None
    return link.identity if link else None


@define(eq=False)
class _Measure:
    """Count and hash of the data on one side."""

    _counts: dict[Kind, int] = attrs.field(factory=lambda: dict.fromkeys(KINDS, 0))
    _hashes: dict[Kind, hashlib._Hash] = attrs.field(
        factory=lambda: {kind: hashlib.sha256() for kind in KINDS}
    )

    def add(self, kind: Kind, lines: Iterable[bytes]) -> None:
        digest = self._hashes[kind]
        for line in lines:
            self._counts[kind] += 1
            digest.update(b"%d:%b" % (len(line), line))

    def take(self, snapshot: Snapshot, inherited: int, messages: Iterable[bytes]) -> None:
        self.add("conversations", [_describe(snapshot)])
        self.add("canisters", snapshot.canister_lines[inherited:])
        self.add("events", snapshot.events)
        self.add("messages", messages)

    def sum_up(self, kind: Kind) -> SideSum:
        return SideSum(count=self._counts[kind], digest=self._hashes[kind].hexdigest())


def _describe(snapshot: Snapshot) -> bytes:
    """Return the metadata and the whole history of a conversation as bytes to hash."""
    about = snapshot.metadata
    history = hashlib.sha256(b"\n".join(snapshot.canister_lines)).hexdigest()
    return encode_document(
        {
            "id": snapshot.identity,
            "name": about.name,
            "tags": list(about.tags),
            "model": about.model,
            **({} if about.keep is None else {"keep": about.keep}),
            **({"pinned": list(about.pinned)} if about.pinned else {}),
            "created": about.created.isoformat(),
            "history": history,
        }
    )


class _Copier:
    """A copy in progress."""

    def __init__(self, source: ConversationStore, target: ConversationStore) -> None:
        self._source, self._target = source, target
        self._source_measure, self._target_measure = _Measure(), _Measure()
        self._added: list[str] = []
        self._extended: list[str] = []
        self._working: list[str] = []
        self._notices: list[Finding] = []
        self._refused: dict[str, Finding] = {}
        self._contents: set[str] = set()

    def copy(self, identity: str) -> None:
        """Copy one conversation, and read it back."""
        try:
            snapshot = take_snapshot(self._source, identity)
        except UnknownConversationError:
            self._note(identity, "It was deleted while the store was copied.")
            return
        except StoreError as error:
            self._refuse(identity, str(error))
            return
        messages = [encode_event(message) for message in snapshot.messages]
        self._source_measure.take(snapshot, snapshot.inherited, messages)
        self._notices += snapshot.notices
        if snapshot.is_working:
            self._working.append(identity)
        parent = snapshot.metadata.parent
        if parent is not None and parent.identity in self._refused:
            self._refuse(identity, f"Its parent {parent.identity} was not copied.")
            return
        try:
            self._copy_to_target(snapshot)
            self._read_back(snapshot, messages)
        except StoreError as error:
            self._refuse(identity, str(error))

    def _copy_to_target(self, snapshot: Snapshot) -> None:
        identity = snapshot.identity
        try:
            existing = take_snapshot(self._target, identity)
        except UnknownConversationError:
            self._copy_references(snapshot)
            plant(self._target, snapshot)
            self._added.append(identity)
            return
        _ensure_prefix(snapshot, existing)
        has_grown = (
            existing.canister_lines != snapshot.canister_lines or existing.events != snapshot.events
        )
        if has_grown:
            self._copy_references(snapshot)
        extend(self._target, snapshot, existing)
        if has_grown:
            self._extended.append(identity)

    def _copy_references(self, snapshot: Snapshot) -> None:
        new = snapshot.references - self._contents
        copy_references(self._source, self._target, new)
        self._contents |= {each for each in new if self._source.contents.contains(each)}

    def _copy_content(self, content_id: str) -> None:
        copy_content(self._source, self._target, content_id)

    def _read_back(self, snapshot: Snapshot, messages: Sequence[bytes]) -> None:
        back = take_snapshot(self._target, snapshot.identity)
        # A message that was in the inbox during an earlier copy may also be in the log by now.
        digest = [each for each in map(encode_event, back.messages) if each in messages]
        # Count from the same canister on both sides: if the parent was deleted meanwhile, the
        # target has fewer inherited canisters, and more in the conversation itself.
        self._target_measure.take(back, snapshot.inherited, digest)

    def copy_contents(self, content_ids: Iterable[str]) -> None:
        """Copy the rest of the content, and read all of it back."""
        self.copy_each_content({*content_ids, *self._contents}, self._copy_content)

    def copy_each_content(
        self, content_ids: Iterable[str], copy_one: Callable[[str], None]
    ) -> None:
        """Copy content to the target, and read it back from the target."""
        for content_id in sorted(content_ids):
            self._source_measure.add("contents", [content_id.encode()])
            try:
                copy_one(content_id)
                self._target.contents.read(content_id)  # proves the hash
            except StoreError as error:
                self._refuse(content_id, str(error))
            else:
                self._target_measure.add("contents", [content_id.encode()])

    def copy_notes(self) -> None:
        """Copy the notes that the target does not have, and read them back."""
        for key in self._source.notes.survey(""):
            try:
                text = self._source.notes.read([key]).get(key)
                if text is None:
                    self._note(key, "It was deleted while the store was copied.")
                    continue
                self._source_measure.add("notes", [f"{key}\0{text}".encode()])
                self._target.notes.change(key, partial(_keep_existing, text))
                back = self._target.notes.read([key]).get(key)
                if back == text:
                    self._target_measure.add("notes", [f"{key}\0{back}".encode()])
                else:
                    self._refuse(key, "The target has another note with this name.")
            except StoreError as error:
                self._refuse(key, str(error))

    def _refuse(self, place: str, message: str) -> None:
        self._refused[place] = Finding(place=place, message=message)

    def _note(self, place: str, message: str) -> None:
        self._notices.append(Finding(place=place, message=message))

    def report(self) -> CopyReport:
        """Return the report."""
        return CopyReport(
            comparisons=tuple(
                Comparison(
                    kind=kind,
                    source=self._source_measure.sum_up(kind),
                    target=self._target_measure.sum_up(kind),
                )
                for kind in KINDS
            ),
            added=tuple(self._added),
            extended=tuple(self._extended),
            working=tuple(self._working),
            refused=tuple(self._refused.values()),
            notices=tuple(dict.fromkeys(self._notices)),
        )


def _keep_existing(text: str, existing: str | None) -> str:
    return text if existing is None else existing


def _ensure_prefix(snapshot: Snapshot, existing: Snapshot) -> None:
    """Raise StoreError unless the existing conversation is a prefix of the one to copy."""
    pairs = [("canister", existing.canister_lines, snapshot.canister_lines)]
    if not is_prefix(existing, snapshot):
        pairs.append(("event", existing.events, snapshot.events))
    for what, there, here in pairs:
        for number, (old, new) in enumerate(zip(there, here, strict=False), 1):
            if old != new:
                raise StoreError(
                    detail=f"The target has a conversation with this id that differs from {what} "
                    f"{number} on.",
                    remedy="It was not changed. Delete one of them, or copy into another store.",
                )
        if len(there) > len(here):
            raise StoreError(
                detail=f"The target is ahead: it has {len(there) - len(here)} more {what}(s).",
                remedy="It was not changed. To get them here, copy in the other direction.",
            )
