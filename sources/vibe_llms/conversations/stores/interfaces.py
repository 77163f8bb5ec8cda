"""What a place that keeps conversations must do.

Stores are synchronous: each call does a little work with small files and returns. A caller on
an event loop that minds a disk's hiccup wraps the call in ``asyncio.to_thread``; every store
may be used from several threads, and from several processes, at once.

Acknowledged means kept: when a method that writes has returned, what it wrote survives the
sudden end of the process and of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

import attrs

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.exceptions import Finding
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.messages.canisters import AnyCanister

if TYPE_CHECKING:
    from vibe_llms.conversations.run_logs.inbox import RunInbox, RunMessage
    from vibe_llms.conversations.run_logs.log import RunLog


@frozen(kw_only=True)
class Position:
    """How far a conversation's own part had been stored when it was last seen.

    Callers keep it and hand it back; its numbers mean something to the store only.

    Attributes:
        size: Of the own part, merged canisters included.
        merged: How much of that came over from deleted parents.
        acknowledged: How many lines were acknowledged until then; ``None`` where that was not
            looked at. What is known of it makes no other position.
    """

    size: int = 0
    merged: int = 0
    acknowledged: int | None = attrs.field(default=None, eq=False)

    @property
    def own_size(self) -> int:
        """What no deletion of a parent changes."""
        return self.size - self.merged


@frozen(kw_only=True)
class Receipt:
    """The acknowledgement of an append.

    Attributes:
        position: Where the conversation now ends.
        notices: What was found on the way, such as a torn line that was set aside.
    """

    position: Position
    notices: tuple[Finding, ...] = ()


@frozen(kw_only=True)
class History:
    """A conversation as it is stored.

    Attributes:
        identity: The id of the conversation.
        metadata: Its name, tags, model, moments and parent.
        canisters: All of them, those of its ancestors first. Media bytes are not loaded:
            :func:`vibe_llms.conversations.contents.hydrate` does that.
        position: Where it ended when it was read.
        notices: What was found on the way.
    """

    identity: str
    metadata: ConversationMetadata
    canisters: tuple[AnyCanister, ...]
    position: Position
    notices: tuple[Finding, ...] = ()


@frozen(kw_only=True)
class Examination:
    """What a proof of one conversation's own part brought.

    Attributes:
        canisters: How many lines were proven.
        references: The ids of all content that it needs and that is not held elsewhere, too.
        findings: What is wrong; empty where all is well.
        remarks: What is not wrong, and yet is to be known, such as what cannot be proven.
    """

    canisters: int
    references: frozenset[str]
    findings: tuple[Finding, ...]
    remarks: tuple[Finding, ...] = ()


Seen: TypeAlias = dict[str, object]
"""What a store remembers of one conversation while it proves others; it alone understands it."""


@frozen(kw_only=True)
class ContentMetadata:
    """What is known about stored content.

    Attributes:
        id: The whole SHA-256 of the data, in lower-case hexadecimal digits.
        mime_type: Such as ``image/png``.
        size_bytes: How large the data are.
        created: When they were first added, in UTC.
        hash_algorithm: What the id is made by.
        name: The name of the file that they came from, where it is known.
    """

    id: str
    mime_type: str
    size_bytes: int
    created: datetime
    hash_algorithm: str = "sha256"
    name: str | None = None


class ContentStore(Protocol):
    """Keeps bytes under their SHA-256, each once, whoever refers to them."""

    def add(self, data: bytes, *, mime_type: str, name: str | None = None) -> str:
        """Keeps the data and returns their id. Adding what is there already renews its age."""

    def read(self, content_id: str) -> bytes:
        """Returns the data.

        Raises:
            StoreError: There is no such content.
            CorruptionError: The data are not what their id says.
        """

    def access_metadata(self, content_id: str) -> ContentMetadata:
        """Returns what is known about the content. Raises StoreError, CorruptionError."""

    def contains(self, content_id: str) -> bool:
        """Tells whether the content is there, without proving it."""

    def survey(self) -> Iterator[str]:
        """Yields the ids of all content, in no particular order."""

    def examine(self, content_id: str) -> tuple[Finding, ...]:
        """Proves data and metadata against the id; returns what is wrong."""

    def hold(self) -> AbstractContextManager[object]:
        """While it is entered, nothing is collected. Several may hold at once."""

    def hold_alone(self) -> AbstractContextManager[object]:
        """While it is entered, nobody holds or adds. Raises StoreError when others hold on."""

    def measure_age_seconds(self, content_id: str) -> float:
        """Returns how long ago the content was last added."""

    def remove(self, content_id: str) -> None:
        """Removes the content. Only while it is held alone."""


class LeftBytes(NamedTuple):  # plain: it is on the way of each start
    """Bytes that lie in a place for content, and of which their database knows nothing.

    Attributes:
        place: The URL of the place.
        content_id: Under which they lie there.
        size_bytes: How many.
    """

    place: str
    content_id: str
    size_bytes: int


@runtime_checkable
class HasPlaces(Protocol):
    """A content store whose bytes lie in places elsewhere, where some may be left over."""

    def survey_strays(self, *, grace_seconds: float) -> Iterator[LeftBytes]:
        """Yields what was put there and is named by nothing, of before so many seconds.

        Raises:
            StoreError: A place is out of reach.
        """

    def remove_stray(self, stray: LeftBytes) -> None:
        """Removes such bytes. Only while the store is held alone."""


class ConversationStore(Protocol):
    """Keeps conversations, each an append-only sequence of canisters with some metadata.

    Identities are 1 to 64 lower-case letters, digits, ``-`` and ``_``; any other is refused
    with a StoreError before anything is touched. Methods which take one raise
    UnknownConversationError where there is no such conversation, and StoreError where another
    process keeps it locked for longer than the store is willing to wait.

    :class:`.defaults.StoreDefaults` has the members from ``keeps_logs`` to ``plant`` for stores
    that do not bring their own.
    """

    @property
    def contents(self) -> ContentStore:
        """Where media data go."""

    @property
    def keeps_logs(self) -> bool:
        """Whether the store keeps logs and inboxes of runs.

        Without, a call without a result counts as begun, and only the process of a run can be
        asked about it.
        """

    @property
    def plants_whole(self) -> bool:
        """Whether :meth:`plant` brings in everything or nothing, also if the process is killed."""

    def open_log(self, identity: str) -> RunLog:
        """Return the log of a conversation's runs. Read and write nothing yet.

        The log lives and ends with the conversation. A store that keeps no logs returns a new one
        in memory.
        """

    def open_inbox(self, identity: str) -> RunInbox:
        """Return the inbox of a conversation's runs. Read and write nothing yet.

        The inbox lives and ends with the conversation.
        """

    def transact(self, *, reading: bool = False) -> AbstractContextManager[object]:
        """Do all or nothing of what the caller does with the store inside the block.

        Blocks inside a block join it. A store without transactions does nothing here.

        Args:
            reading: The caller only reads, and sees the store as it is at one moment.

        Raises:
            StoreUnavailableError: The database is out of reach.
        """

    def plant(
        self,
        identity: str,
        metadata: ConversationMetadata,
        canisters: Sequence[AnyCanister],
        *,
        events: Sequence[bytes] = (),
        letters: Sequence[RunMessage] = (),
    ) -> Position:
        """Create a conversation with its canisters, the log of its runs and its inbox.

        Args:
            canisters: What it stores itself, without what it has from its parent.
            events: Lines of the log.
            letters: What the inbox holds, oldest first.

        Raises:
            StoreError: The identity is taken, the parent or content that is named is missing, or
                the store cannot take over logs.
        """

    def create(self, identity: str, metadata: ConversationMetadata) -> Position:
        """Begins a conversation. Its parent, if it has one, must be there.

        Raises:
            StoreError: There is a conversation of this identity already.
        """

    def append(
        self, identity: str, canisters: Sequence[AnyCanister], *, after: Position | None = None
    ) -> Receipt:
        """Adds canisters at the end; all or none, and in one piece whoever else appends.

        Data of media are moved to the content store first. The cost does not depend on how
        much was said before.

        Args:
            after: Where the caller believes the conversation to end; ``None`` to append
                after whatever has been said meanwhile.

        Raises:
            StaleConversationError: Others have appended since ``after``.
            StoreError: Content that is referred to is not there, two canisters have the same
                id, or writing failed. Nothing was added then.
        """

    def secure(self, identity: str) -> None:
        """Returns when all that can be read of a conversation survives the end of the machine.

        Whoever is killed after writing and before the acknowledgement leaves what others can
        read and a loss of power would still take away: nothing may be built on that before.
        """

    def read(self, identity: str, *, tolerant: bool = False) -> History:
        """Reads a conversation whole.

        Args:
            tolerant: Leave out what does not read and report it in ``notices``; change
                nothing on the disk.

        Raises:
            CorruptionError: Something in it is damaged; says file and line. Not if tolerant.
        """

    def read_metadata(self, identity: str) -> ConversationMetadata:
        """Returns the metadata without reading what was said."""

    def update_metadata(
        self,
        identity: str,
        *,
        name: str | None | Absence = ABSENT,
        tags: Sequence[str] | Absence = ABSENT,
        model: str | None | Absence = ABSENT,
    ) -> ConversationMetadata:
        """Changes what is given and leaves the rest; returns the result."""

    def fork(
        self, identity: str, *, from_index: int | None = None, child: str | None = None
    ) -> str:
        """Begins a conversation that shares the history of another; returns its identity.

        Time and space do not depend on the history's length. Name, tags and model are the
        parent's.

        Args:
            from_index: How many canisters are shared; ``None`` for all there are now. It is
                not checked against the history, which would mean to read it: too large a
                number shows as a CorruptionError when the fork is read.
            child: The identity of the fork; a new one by default.
        """

    def delete(self, identity: str) -> None:
        """Removes a conversation; its forks first receive what they need of it."""

    def survey(self) -> Iterator[str]:
        """Yields the identities of all conversations, in no particular order."""

    def survey_references(self) -> Iterator[str]:
        """Yields the ids of all content that conversations need, damaged lines included."""

    def examine(self, identity: str, *, seen: Seen | None = None) -> Examination:
        """Proves each line that the conversation has stored itself, and its link.

        Args:
            seen: An empty dictionary, handed over with each conversation that is proven at
                the same time: what many forks share is read once then.
        """
