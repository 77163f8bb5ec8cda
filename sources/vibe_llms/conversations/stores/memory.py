"""In-memory store, for tests, demonstrations, and programs that need no files.

Its data exist as long as the object.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING

import attrs

from vibe_llms.conversations.canister_media import find_required
from vibe_llms.conversations.metadata import ConversationMetadata, ParentLink
from vibe_llms.conversations.notes.in_memory import NoteTable
from vibe_llms.conversations.stores.defaults import StoreDefaults
from vibe_llms.conversations.stores.identities import ensure_content_id, ensure_identity
from vibe_llms.conversations.stores.interfaces import (
    ContentMetadata,
    Examination,
    History,
    Position,
    Receipt,
    Seen,
)
from vibe_llms.conversations.stores.media import detach_media, ensure_distinct
from vibe_llms.conversations.stores.moments import find_moment
from vibe_llms.exceptions import (
    CorruptionError,
    Finding,
    StaleConversationError,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import compute_content_id
from vibe_llms.messages.identities import access_now, produce_identity
from vibe_llms.messages.vendor_files import NotedFile, VendorFile
from vibe_llms.messages.views import media_of

if TYPE_CHECKING:
    from vibe_llms.conversations.run_logs.inbox import MemoryInbox
    from vibe_llms.conversations.run_logs.memory_log import MemoryLog


@define
class _Content:
    metadata: ContentMetadata
    data: bytes
    added: float
    vendor_files: dict[str, VendorFile] = attrs.field(factory=dict)


@define
class MemoryContents:
    """Content store in memory; see :class:`.interfaces.ContentStore`."""

    _contents: dict[str, _Content] = attrs.field(factory=dict)
    # Reentrant, as `add` is called inside of `hold`.
    _lock: threading.RLock = attrs.field(factory=threading.RLock)

    def _access(self, content_id: str) -> _Content:
        try:
            return self._contents[ensure_content_id(content_id)]
        except KeyError:
            raise StoreError(detail=f"Content {content_id} is not in the store.") from None

    def add(self, data: bytes, *, mime_type: str, name: str | None = None) -> str:
        """Store the data and return their id."""
        content_id = compute_content_id(data)
        metadata = ContentMetadata(
            id=content_id,
            mime_type=mime_type,
            size_bytes=len(data),
            created=access_now(),
            name=name,
        )
        with self._lock:
            content = self._contents.setdefault(content_id, _Content(metadata, data, 0.0))
            content.added = time.monotonic()
        return content_id

    def read(self, content_id: str) -> bytes:
        """Return the data."""
        return self._access(content_id).data

    def access_metadata(self, content_id: str) -> ContentMetadata:
        """Return the metadata of the content."""
        return self._access(content_id).metadata

    def contains(self, content_id: str) -> bool:
        """Return whether the content exists."""
        return ensure_content_id(content_id) in self._contents

    def survey(self) -> Iterator[str]:
        """Yield the ids of all content."""
        return iter(list(self._contents))  # a copy, since others may add concurrently

    def examine(self, content_id: str) -> tuple[Finding, ...]:
        """Report missing content; data in memory need no other verification."""
        try:
            self._access(content_id)
        except StoreError as error:
            return (Finding(place=content_id, message=error.detail),)
        return ()

    def hold(self) -> AbstractContextManager[object]:
        """Prevent garbage collection inside the block."""
        return self._lock

    hold_alone = hold

    def measure_age_seconds(self, content_id: str) -> float:
        """Return the time since the content was last added, in seconds."""
        return time.monotonic() - self._access(content_id).added

    def remove(self, content_id: str) -> None:
        """Remove the content."""
        del self._contents[ensure_content_id(content_id)]

    def list_vendor_files(self, content_id: str) -> dict[str, VendorFile] | None:
        """Return the vendors' files of a content, by account; ``None`` for unknown content."""
        content = self._contents.get(content_id)
        return None if content is None else content.vendor_files


@define
class MemoryNotes:
    """Notes in memory; see :class:`~vibe_llms.messages.vendor_files.VendorFileNotes`."""

    _contents: MemoryContents

    def find(self, content_id: str, account: str) -> VendorFile | None:
        """Return the vendor's file of a content."""
        return (self._contents.list_vendor_files(content_id) or {}).get(account)

    def note(self, content_id: str, account: str, file: VendorFile) -> bool:
        """Note the vendor's file of a content, if the store has the content."""
        files = self._contents.list_vendor_files(content_id)
        if files is None:
            return False
        files[account] = file
        return True

    def forget(self, content_id: str, account: str, identity: str) -> None:
        """Remove a note if it still has this id."""
        files = self._contents.list_vendor_files(content_id)
        if files is not None and account in files and files[account].id == identity:
            del files[account]

    def survey(self) -> Iterator[NotedFile]:
        """Yield all notes."""
        for content_id in self._contents.survey():
            files = self._contents.list_vendor_files(content_id) or {}
            for account, file in list(files.items()):
                yield NotedFile(content_id, account, file)


@define
class _Entry:
    """A stored conversation.

    Attributes:
        metadata: Metadata of the conversation; :meth:`describe` returns them with the time of the
            last append.
        own: Its canisters, without those that it inherits from its parent.
        merged: Number of these that were copied from deleted parents.
        last_append: Time of the last append, if the metadata do not contain it yet.
        log: Log of the conversation's runs, created when it is first opened.
        inbox: Inbox of the conversation's runs, created when it is first opened.
    """

    metadata: ConversationMetadata
    own: list[AnyCanister] = attrs.field(factory=list)
    merged: int = 0
    last_append: datetime | None = None
    log: MemoryLog | None = None
    inbox: MemoryInbox | None = None

    def describe(self) -> ConversationMetadata:
        """Return the current metadata.

        They are not created at each append, which would slow appending.
        """
        if self.last_append is not None:
            self.metadata, self.last_append = (
                attrs.evolve(self.metadata, updated=self.last_append),
                None,
            )
        return self.metadata


@define(eq=False)
class MemoryStore(StoreDefaults):
    """Store of conversations in memory; see :class:`.interfaces.ConversationStore`.

    Attributes:
        contents: Content store with the bytes of media.
        notes: Notes of models and users.
    """

    contents: MemoryContents = attrs.field(factory=MemoryContents)
    notes: NoteTable = attrs.field(factory=NoteTable)
    keeps_logs = True
    _entries: dict[str, _Entry] = attrs.field(factory=dict)
    # Reentrant, as `fork` calls `create`.
    _lock: threading.RLock = attrs.field(factory=threading.RLock)

    def _access(self, identity: str) -> _Entry:
        entry = self._entries.get(identity)
        if entry is None:
            raise UnknownConversationError(identity=ensure_identity(identity))
        return entry

    @property
    def vendor_files(self) -> MemoryNotes:
        """Notes about vendors' files of contents."""
        return MemoryNotes(self.contents)

    def create(self, identity: str, metadata: ConversationMetadata) -> Position:
        """Create a conversation."""
        with self._lock:
            if ensure_identity(identity) in self._entries:
                raise StoreError(detail=f"The conversation {identity} already exists.")
            if metadata.parent is not None:
                self._access(metadata.parent.identity)
            self._entries[identity] = _Entry(attrs.evolve(metadata, updated=metadata.created))
        return Position()

    def append(
        self, identity: str, canisters: Sequence[AnyCanister], *, after: Position | None = None
    ) -> Receipt:
        """Append canisters, all or none."""
        ensure_distinct(canisters)
        with self.contents.hold(), self._lock:
            entry = self._access(identity)
            if after is not None and after.own_size != len(entry.own) - entry.merged:
                raise StaleConversationError(identity=identity)
            entry.own.extend(detach_media(canisters, self.contents))
            if canisters:
                now = access_now()
                moment = find_moment(canisters, now)
                entry.last_append = now if moment is None else max(moment, entry.describe().updated)
            return Receipt(position=Position(size=len(entry.own), merged=entry.merged))

    def secure(self, identity: str) -> None:
        """Do nothing, since memory does not survive the process."""
        with self._lock:
            self._access(identity)

    def _inherit(self, identity: str) -> list[AnyCanister]:
        """Return the canisters that a conversation inherits from its ancestors."""
        links: list[ParentLink] = []
        link = self._access(identity).metadata.parent
        while link is not None and link.canisters != 0:  # 0: inherits nothing
            links.append(link)
            link = self._access(link.identity).metadata.parent
        inherited: list[AnyCanister] = []
        for link in reversed(links):
            inherited = inherited + self._access(link.identity).own
            count = link.canisters or 0
            if len(inherited) < count:
                raise CorruptionError(
                    path=identity,
                    detail=f"The parent {link.identity} has fewer than the {count} canisters "
                    "at the fork point.",
                )
            inherited = inherited[:count]
        return inherited

    def read(self, identity: str, *, tolerant: bool = False) -> History:
        """Read a complete conversation."""
        notices: tuple[Finding, ...] = ()
        with self._lock:
            entry = self._access(identity)
            try:
                inherited = self._inherit(identity)
            except CorruptionError as error:
                if not tolerant:
                    raise
                inherited, notices = [], (Finding(place=identity, message=error.detail),)
            return History(
                identity=identity,
                metadata=entry.describe(),
                canisters=(*inherited, *entry.own),
                position=Position(size=len(entry.own), merged=entry.merged),
                notices=notices,
            )

    def read_on(self, identity: str, after: Position) -> History | None:
        """Read only the canisters behind a position."""
        with self._lock:
            entry = self._access(identity)
            start = after.own_size + entry.merged
            if start > len(entry.own):
                return None
            return History(
                identity=identity,
                metadata=entry.describe(),
                canisters=tuple(entry.own[start:]),
                position=Position(size=len(entry.own), merged=entry.merged),
            )

    def read_metadata(self, identity: str) -> ConversationMetadata:
        """Return the metadata."""
        with self._lock:
            return self._access(identity).describe()

    def update_metadata(
        self,
        identity: str,
        *,
        name: str | None | Absence = ABSENT,
        tags: Sequence[str] | Absence = ABSENT,
        model: str | None | Absence = ABSENT,
        keep: int | None | Absence = ABSENT,
        pinned: Sequence[str] | Absence = ABSENT,
    ) -> ConversationMetadata:
        """Change some fields and keep the others; return the result."""
        with self._lock:
            entry = self._access(identity)
            old = entry.describe()
            entry.metadata = old.change(name=name, tags=tags, model=model, keep=keep, pinned=pinned)
            return entry.metadata

    def fork(
        self, identity: str, *, from_index: int | None = None, child: str | None = None
    ) -> str:
        """Create a fork, which shares the history of another conversation; return its identity."""
        child = produce_identity() if child is None else child
        with self._lock:
            parent = self._access(identity)
            if from_index is None:
                from_index = len(self._inherit(identity)) + len(parent.own)
            link = ParentLink(identity=identity, canisters=from_index)
            self.create(child, parent.metadata.fork(link))
        return child

    def delete(self, identity: str) -> None:
        """Delete a conversation; first copy shared lines to its forks."""
        with self._lock:
            deleted = self._access(identity)
            grandparent = deleted.metadata.parent
            inherited = len(self._inherit(identity))
            for child in self._entries.values():
                link = child.metadata.parent
                if link is None or link.identity != identity:
                    continue
                count = link.canisters or 0
                share = deleted.own[: max(0, count - inherited)]
                # The fork becomes a child of the grandparent. A fork inherits fewer canisters than
                # the deleted conversation if the fork point is in the part that the deleted
                # conversation inherits.
                if grandparent is not None:
                    grandparent = attrs.evolve(grandparent, canisters=min(count, inherited))
                child.own[:0] = share
                # Positions of other callers do not count these, and so stay valid.
                child.merged += len(share)
                child.metadata = attrs.evolve(child.metadata, parent=grandparent)
            del self._entries[identity]

    def open_log(self, identity: str) -> MemoryLog:
        """Return the log of a conversation's runs; all callers share its events."""
        from vibe_llms.conversations.run_logs.memory_log import MemoryLog

        with self._lock:
            entry = self._access(identity)
            if entry.log is None:
                entry.log = MemoryLog()
            return entry.log.share()

    def open_inbox(self, identity: str) -> MemoryInbox:
        """Return the inbox of a conversation's runs; all callers share it."""
        from vibe_llms.conversations.run_logs.inbox import MemoryInbox

        with self._lock:
            entry = self._access(identity)
            if entry.inbox is None:
                entry.inbox = MemoryInbox()
            return entry.inbox

    def survey(self) -> Iterator[str]:
        """Yield the identities of all conversations."""
        return iter(list(self._entries))

    def survey_references(self) -> Iterator[str]:
        """Yield the ids of all content that conversations need."""
        with self._lock:
            return iter(set().union(*map(_find_references, self._entries.values())))

    def examine(self, identity: str, *, seen: Seen | None = None) -> Examination:
        """Verify the link; data in memory need no other verification."""
        entry = self._access(identity)
        return Examination(
            canisters=len(entry.own),
            references=find_required(entry.own),
            findings=self.read(identity, tolerant=True).notices,
        )


def _find_references(entry: _Entry) -> set[str]:
    return {item.content_id for item in media_of(entry.own) if item.content_id is not None}
