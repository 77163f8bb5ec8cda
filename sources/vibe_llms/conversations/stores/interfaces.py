"""Interfaces of conversation stores and content stores.

Stores are synchronous: each call does a little work with small files and returns. On an event loop,
wrap calls in ``asyncio.to_thread`` if a slow disk must not block it. Every store may be used from
several threads and several processes at once.

Durability: after a writing method returns, its data survive a crash of the process and of the
machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import attrs

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.exceptions import Finding
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.messages.canisters import AnyCanister

if TYPE_CHECKING:
    from vibe_llms.conversations.index.interfaces import Index
    from vibe_llms.conversations.notes.interfaces import NoteStore
    from vibe_llms.conversations.run_logs.inbox import RunInbox, RunMessage
    from vibe_llms.conversations.run_logs.log import RunLog
    from vibe_llms.messages.vendor_files import VendorFileNotes


@frozen(kw_only=True)
class Position:
    """Position in a conversation: the stored size at a time, without the inherited part.

    Callers pass a position back to the store, which alone interprets the numbers.

    Attributes:
        size: Size without the inherited part, but with merged canisters.
        merged: Part of that size that was merged from deleted parents.
        acknowledged: Number of lines that the store had acknowledged; ``None`` if unknown. Ignored
            when positions are compared.
    """

    size: int = 0
    merged: int = 0
    acknowledged: int | None = attrs.field(default=None, eq=False)

    @property
    def own_size(self) -> int:
        """Size without merged canisters; deleting a parent does not change it."""
        return self.size - self.merged


@frozen(kw_only=True)
class Receipt:
    """The acknowledgement of an append.

    Attributes:
        position: New end of the conversation.
        notices: Notices, such as about an incomplete line that was moved to another file.
    """

    position: Position
    notices: tuple[Finding, ...] = ()


@frozen(kw_only=True)
class History:
    """Stored conversation.

    Attributes:
        identity: The id of the conversation.
        metadata: Its name, tags, model, times and parent.
        canisters: All canisters; inherited canisters first. Media bytes are not loaded:
            :func:`vibe_llms.conversations.canister_media.hydrate` does that.
        position: End of the conversation when it was read.
        notices: Findings of the read.
    """

    identity: str
    metadata: ConversationMetadata
    canisters: tuple[AnyCanister, ...]
    position: Position
    notices: tuple[Finding, ...] = ()


@frozen(kw_only=True)
class Examination:
    """Result of the verification of a conversation, without the inherited part.

    Attributes:
        canisters: Number of verified lines.
        references: Ids of all content that it needs and that is not available elsewhere.
        findings: Errors; empty if there are none.
        remarks: Notes that are not errors, such as facts that cannot be verified.
    """

    canisters: int
    references: frozenset[str]
    findings: tuple[Finding, ...]
    remarks: tuple[Finding, ...] = ()


Seen: TypeAlias = dict[str, object]
"""Cache for the verification of several conversations, by id; only the store reads it."""


@frozen(kw_only=True)
class ContentMetadata:
    """Metadata of stored content.

    Attributes:
        id: The whole SHA-256 of the data, in lower-case hexadecimal digits.
        mime_type: MIME type, such as ``image/png``.
        size_bytes: Size of the data.
        created: Time at which they were first added, in UTC.
        hash_algorithm: Algorithm of the id.
        name: Name of the file that they came from, if known.
    """

    id: str
    mime_type: str
    size_bytes: int
    created: datetime
    hash_algorithm: str = "sha256"
    name: str | None = None


class ContentStore(Protocol):
    """Content-addressed store: keeps bytes under their SHA-256, each once."""

    def add(self, data: bytes, *, mime_type: str, name: str | None = None) -> str:
        """Store the data and return their id. Adding existing data renews their age."""

    def read(self, content_id: str) -> bytes:
        """Return the data.

        Raises:
            StoreError: The content does not exist.
            CorruptionError: The data do not match their id.
        """

    def access_metadata(self, content_id: str) -> ContentMetadata:
        """Return the metadata of the content. Raises StoreError, CorruptionError."""

    def contains(self, content_id: str) -> bool:
        """Return whether the content exists, without verifying it."""

    def survey(self) -> Iterator[str]:
        """Yield the ids of all content, in arbitrary order."""

    def examine(self, content_id: str) -> tuple[Finding, ...]:
        """Verify data and metadata against the id; return the errors."""

    def hold(self) -> AbstractContextManager[object]:
        """Prevent garbage collection inside the block. Several callers may hold at once."""

    def hold_alone(self) -> AbstractContextManager[object]:
        """Lock exclusively: no one else holds or adds. Raises StoreError on a timeout."""

    def measure_age_seconds(self, content_id: str) -> float:
        """Return the time since the content was last added, in seconds."""

    def remove(self, content_id: str) -> None:
        """Remove the content. Requires :meth:`hold_alone`."""


class LeftBytes(NamedTuple):  # cheap to define, since it is imported at every start
    """Stray content: bytes in a content backend that the database does not know.

    Attributes:
        location: The URL of the backend.
        content_id: Their id there.
        size_bytes: Their size.
    """

    location: str
    content_id: str
    size_bytes: int


class ContentBackends(Protocol):
    """External backends that have the bytes of a store's content."""

    @property
    def address(self) -> str:
        """URL of the backend for new content; empty for the store itself."""

    def bring(self, content_id: str) -> None:
        """Move content from another backend to that for new content; verify it before removal.

        Raises:
            StoreError: The content cannot be read or written; the content stays in its old
                location.
        """

    def survey_strays(self, *, grace_seconds: float) -> Iterator[LeftBytes]:
        """Yield stray content that is older than a number of seconds.

        Raises:
            StoreError: A backend is unreachable.
        """

    def remove_stray(self, stray: LeftBytes) -> None:
        """Remove stray content. Requires :meth:`ContentStore.hold_alone`."""


class ConversationStore(Protocol):
    """Store of conversations, each an append-only sequence of canisters with some metadata.

    Identities are 1 to 64 lower-case letters, digits, ``-`` and ``_``; any other is refused with a
    StoreError before anything is touched. Methods that take an id raise UnknownConversationError if
    the conversation does not exist, and StoreError if another process keeps the conversation locked
    for longer than the store's timeout.

    :class:`.defaults.StoreDefaults` has default implementations of the members from ``index`` to
    ``read_on``.
    """

    @property
    def contents(self) -> ContentStore:
        """Content store for media data."""

    @property
    def index(self) -> Index:
        """Index that lists and searches the conversations."""

    @property
    def content_backends(self) -> ContentBackends | None:
        """External backends of :attr:`contents`; ``None`` if all bytes are in the store."""

    @property
    def vendor_files(self) -> VendorFileNotes:
        """Notes about contents of :attr:`contents` that vendors store."""

    @property
    def notes(self) -> NoteStore:
        """Notes of models and users, which outlive conversations."""

    @property
    def keeps_logs(self) -> bool:
        """True if the store keeps logs and inboxes of runs.

        If not, only the process of a run knows its state. After a restart, calls without a result
        count as begun.
        """

    @property
    def plants_whole(self) -> bool:
        """True if :meth:`plant` is atomic even if the process is killed."""

    def open_log(self, identity: str) -> RunLog:
        """Return the log of a conversation's runs. Read and write nothing yet.

        Deleting the conversation deletes the log. A store that keeps no logs returns a new one in
        memory.
        """

    def open_inbox(self, identity: str) -> RunInbox:
        """Return the inbox of a conversation's runs. Read and write nothing yet.

        Deleting the conversation deletes the inbox.
        """

    def transact(self, *, reading: bool = False) -> AbstractContextManager[object]:
        """Run a transaction: apply all of the caller's changes inside the block, or none.

        Nested blocks join the outer one. Without support for transactions, this does nothing.

        Args:
            reading: The caller only reads, and sees a snapshot of the store.

        Raises:
            StoreUnavailableError: The database is unreachable.
        """

    def plant(
        self,
        identity: str,
        metadata: ConversationMetadata,
        canisters: Sequence[AnyCanister],
        *,
        events: Sequence[bytes] = (),
        messages: Sequence[RunMessage] = (),
    ) -> Position:
        """Create a conversation with canisters, a log of runs and an inbox.

        Args:
            canisters: Canisters of the conversation, without inherited canisters.
            events: Lines of the log.
            messages: Messages of the inbox, oldest first.

        Raises:
            StoreError: The identity already exists, the named parent or content is missing, or the
                store cannot import logs.
        """

    def read_on(self, identity: str, after: Position) -> History | None:
        """Read only the canisters behind a position; the cost does not depend on the others.

        Returns:
            The conversation with only these canisters; ``None`` if it has to be read as a whole:
            the store cannot read a part, the position is not in the conversation, or the part is
            damaged.
        """

    def create(self, identity: str, metadata: ConversationMetadata) -> Position:
        """Create a conversation. A parent in the metadata must exist.

        Raises:
            StoreError: The identity already exists.
        """

    def append(
        self, identity: str, canisters: Sequence[AnyCanister], *, after: Position | None = None
    ) -> Receipt:
        """Append canisters, all or none; concurrent appends do not interleave.

        Data of media are moved to the content store first. The cost does not depend on the length
        of the conversation.

        Args:
            after: End of the conversation as known to the caller; ``None`` to append after the
                current end.

        Raises:
            StaleConversationError: Others have appended since ``after``.
            StoreError: Referenced content is missing, two canisters have one id, or writing failed.
                Nothing was added then.
        """

    def secure(self, identity: str) -> None:
        """Wait until all readable data of a conversation survive a crash of the machine.

        If a process is killed during a write, other processes can read the data, but a power
        failure could still lose them. Call this before you rely on such data.
        """

    def read(self, identity: str, *, tolerant: bool = False) -> History:
        """Read a complete conversation.

        Args:
            tolerant: Skip unreadable lines and report them in ``notices``; change nothing on the
                disk.

        Raises:
            CorruptionError: The conversation is damaged; the error names file and line. Not if
                tolerant.
        """

    def read_metadata(self, identity: str) -> ConversationMetadata:
        """Return the metadata without reading the canisters."""

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

    def fork(
        self, identity: str, *, from_index: int | None = None, child: str | None = None
    ) -> str:
        """Create a fork, which shares the history of another conversation; return its identity.

        Time and space do not depend on the history's length. The fork copies name, tags and model
        from the parent.

        Args:
            from_index: Number of shared canisters; ``None`` for all current ones. It is not
                validated, as that would require reading the history: if it is too large, reading
                the fork raises CorruptionError.
            child: Identity of the fork; a new one by default.
        """

    def delete(self, identity: str) -> None:
        """Delete a conversation; first copy shared lines to its forks."""

    def survey(self) -> Iterator[str]:
        """Yield the identities of all conversations, in arbitrary order."""

    def measure_logs(self) -> Mapping[str, object]:
        """Return :meth:`.RunLog.measure` of all logs of runs, by the identities.

        Conversations without a run need not be included.
        """

    def survey_references(self) -> Iterator[str]:
        """Yield the ids of all content that conversations need, even in damaged lines."""

    def examine(self, identity: str, *, seen: Seen | None = None) -> Examination:
        """Verify the lines of the conversation's file, and the link to its parent.

        Args:
            seen: A dictionary, empty at first, that is passed with each conversation of one
                verification, so that history shared by many forks is read only once.
        """
