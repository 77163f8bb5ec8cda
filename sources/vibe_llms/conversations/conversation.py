"""A conversation in memory, which can be saved to a store."""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol, TypeVar

import attrs

from vibe_llms.conversations.metadata import ConversationMetadata, ParentLink
from vibe_llms.conversations.stores.interfaces import ConversationStore, History, Position
from vibe_llms.exceptions import (
    Finding,
    StaleConversationError,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.reprs import represent
from vibe_llms.messages.canisters import AnyCanister, DocumentCanister, UserCanister
from vibe_llms.messages.contents import AnyContent
from vibe_llms.messages.identities import access_now, produce_identity

_Compacted = TypeVar("_Compacted", covariant=True)


class Compactor(Protocol[_Compacted]):
    """Model that can compact a conversation, such as ``Model`` or ``SyncModel``."""

    def compact(self, conversation: Conversation, *, keep: int | None = None) -> _Compacted:
        """Return a fork that begins with a summary, or an awaitable of it."""


@frozen
class _StoredState:
    """State of a conversation in its store: position, number of canisters, metadata.

    Replaced as a whole, so that an interrupt leaves the old or the new state.
    """

    store: ConversationStore
    position: Position
    canisters: int
    metadata: ConversationMetadata


@define(eq=False, init=False)
class Conversation:
    """A conversation: an append-only list of canisters.

    A conversation belongs to one task or thread at a time. Only ``save`` (without ``merge``) may
    run in another thread, ``await asyncio.to_thread(conversation.save, store)``, while messages
    are added.

    Attributes:
        id: Its unique id.
        notices: Notices from restoring and saving, such as about an incomplete line in its file.
        companions: Objects that live as long as the conversation in this process, by class; for
            example the log of the runs of a conversation without a store. Copies share this
            dictionary; a fork inherits it.
    """

    id: str
    notices: tuple[Finding, ...]
    companions: ChainMap[type, Any] = attrs.field(repr=False)
    _metadata: ConversationMetadata
    _last_append: datetime | None = attrs.field(repr=False)
    _canisters: list[AnyCanister] = attrs.field(repr=False)
    _shared_count: int | None = attrs.field(repr=False)
    _stored: _StoredState | None = attrs.field(repr=False)
    _store_of_parent: ConversationStore | None = attrs.field(repr=False)
    _unsaved_parent: Conversation | None = attrs.field(repr=False)
    _save_lock: threading.Lock = attrs.field(repr=False)

    def __init__(
        self,
        *,
        id: str | None = None,  # noqa: A002  # the word of the stored form
        canisters: Iterable[AnyCanister] = (),
        metadata: ConversationMetadata | None = None,
    ) -> None:
        self.id = produce_identity() if id is None else id
        self.metadata = ConversationMetadata() if metadata is None else metadata
        self.notices = ()
        self._canisters = list(canisters)
        self._shared_count = None
        self._stored = None
        self._store_of_parent = self._unsaved_parent = None
        self._save_lock = threading.Lock()
        self.companions = ChainMap()

    def __repr__(self) -> str:
        named = () if self._metadata.name is None else (("name", self._metadata.name),)
        return represent("Conversation", (*named, ("id", self.id), ("canisters", len(self))))

    @property
    def metadata(self) -> ConversationMetadata:
        """Name, tags and so on. To change them, assign an evolved value and save."""
        # Updated on demand: at each append, it would cost as much as the append itself.
        if self._last_append is not None:
            self.metadata = attrs.evolve(self._metadata, updated=self._last_append)
        return self._metadata

    @metadata.setter
    def metadata(self, metadata: ConversationMetadata) -> None:
        self._metadata, self._last_append = metadata, None

    @property
    def canisters(self) -> Sequence[AnyCanister]:
        """All canisters, oldest first; read-only."""
        return self._own_canisters()

    def _own_canisters(self) -> list[AnyCanister]:
        # A fork shares its parent's list until it has canisters of its own, so that forking takes
        # constant time. That is safe, as the list only grows and so keeps its beginning. `save` may
        # read both fields in another thread: it reads `_shared_count` first, which is set last.
        if self._shared_count is not None:
            self._canisters = self._canisters[: self._shared_count]
            self._shared_count = None
        return self._canisters

    def __len__(self) -> int:
        shared = self._shared_count
        return len(self._canisters) if shared is None else shared

    def __bool__(self) -> bool:
        return True  # `__len__` would make an empty conversation false

    @property
    def last_message(self) -> AnyCanister | None:
        """The last canister, or ``None``."""
        count = len(self)
        return self._canisters[count - 1] if count else None

    def add_canister(self, canister: AnyCanister) -> None:
        """Append one canister in memory; :meth:`save` stores it."""
        self._own_canisters().append(canister)

    def add_canisters(self, canisters: Iterable[AnyCanister]) -> None:
        """Append several canisters, such as those of a response."""
        self._own_canisters().extend(canisters)

    def add_user_message(self, content: str | AnyContent | Iterable[AnyContent]) -> UserCanister:
        """Append a user message (a text, a content or several) and return it."""
        canister = UserCanister(content)
        self.add_canister(canister)
        return canister

    def copy(self) -> Conversation:
        """Return an independent copy of the conversation, with the same id.

        After one copy is saved, the other must be saved with ``merge``.
        """
        copied = Conversation(id=self.id, canisters=self.canisters, metadata=self.metadata)
        copied._store_of_parent = self._store_of_parent
        copied._unsaved_parent = self._unsaved_parent
        copied._stored = self._stored
        copied.companions, copied.notices = self.companions, self.notices
        return copied

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Conversation:
        # Messages are frozen, and a store is not copied.
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the store and the companions, which belong to a process. After unpickling, `save`
        # finds the conversation in the store.
        return _rebuild, (self.id, tuple(self.canisters), self.metadata, self.notices)

    def replace_loaded(self, canisters: Sequence[AnyCanister]) -> None:
        """Replace the canisters by equal canisters with the bytes of their media."""
        self._canisters, self._shared_count = list(canisters), None

    def fork(self, from_index: int | None = None) -> Conversation:
        """Return a new conversation that shares the beginning of this one.

        A stored fork takes only the space of new canisters; the stored beginning is shared.

        Args:
            from_index: Number of shared canisters, so that ``canisters[from_index]`` is the first
                one that is not shared; negative counts from the end. ``None`` shares all.

        Raises:
            StoreError: The index is out of range.
        """
        count = len(self)
        index = count if from_index is None else from_index
        index = index + count if index < 0 else index
        if not 0 <= index <= count:
            raise StoreError(
                detail=f"Conversation {self.id} has {count} canisters; the fork point must be "
                f"between 0 and {count}, not {from_index}."
            )
        fork = Conversation(metadata=self.metadata.fork(self._find_parent(index)))
        fork._canisters, fork._shared_count, fork._store_of_parent = (
            self._canisters,
            index,
            self._store_of_parent,
        )
        fork.companions = self.companions.new_child()
        return fork

    def pin(self, *canisters: AnyCanister) -> None:
        """Keep messages word for word in every later compaction; :meth:`save` stores it."""
        pinned = (*self.metadata.pinned, *(canister.id for canister in canisters))
        self.metadata = attrs.evolve(self.metadata, pinned=pinned)

    def compact(self, model: Compactor[_Compacted], *, keep: int | None = None) -> _Compacted:
        """Return a fork that begins with the model's summary of the oldest turns.

        This conversation keeps all its messages. Instructions, pinned messages, calls without a
        result and the last turns stay word for word; the summary names the files. Save the fork to
        store it; this conversation is saved with it. ::

            conversation = await conversation.compact(Model("local:smollm2"))
            conversation = conversation.compact(SyncModel("local:smollm2"))

        Args:
            model: A ``Model``, for an awaitable, or a ``SyncModel``.
            keep: Number of last turns that stay, if they fit into half of the model's window; by
                default that of the metadata, or four.

        Raises:
            RequestError: There is nothing to summarize.
            ConverseError: The model did not summarize it.
        """
        return model.compact(self, keep=keep)

    def fork_compacted(self, canisters: Iterable[AnyCanister]) -> Conversation:
        """Return a fork with a summary and other canisters in place of these ones."""
        # It shares no stored lines, as reading these would take as long as reading all of them.
        fork = self.fork(0)
        fork.add_canisters(canisters)
        if self._stored is None or self._canisters_since(self._stored.canisters):
            fork._unsaved_parent = self
        return fork

    def _find_parent(self, index: int) -> ParentLink | None:
        """Return the fork point in the stored part of this conversation, or of its parent."""
        if self._stored is not None:
            # The canisters that are not stored yet will be stored with the fork.
            return ParentLink(identity=self.id, canisters=min(index, self._stored.canisters))
        parent = self.metadata.parent
        if parent is None or parent.canisters is None:
            return None
        return attrs.evolve(parent, canisters=min(index, parent.canisters))

    # Saving and restoring. These block, for some hundred microseconds an append.

    def save(self, store: ConversationStore, *, merge: bool = False) -> None:
        """Store new canisters and changed metadata.

        When this method returns, the canisters survive a crash. Saving to a second store copies the
        conversation there; the copy is complete, and has no parent.

        Args:
            merge: If other writers have appended to the conversation, read their canisters first,
                and append the new canisters after them.

        Raises:
            StaleConversationError: Others have appended, and ``merge`` is false. Nothing is lost:
                save with ``merge``, save a ``fork``, or restore the conversation and add again.
            StoreError: It could not be written. It can be saved again.
        """
        with self._save_lock:
            stored = self._access_stored(store)
            # Without new messages, only `merge` has a reason to read the store.
            if merge or self._canisters_since(stored.canisters):
                self._append(stored, merge)
            self._save_metadata()

    def catch_up(self, store: ConversationStore) -> bool:
        """Load the messages that other programs have added, and store new messages after them.

        Returns:
            Whether other programs have added messages.

        Raises:
            StoreError: Writing failed. You can try again.
        """
        with self._save_lock:
            has_others = self._append(self._access_stored(store), merge=True)
            self._save_metadata()
        return has_others

    def remove_unsaved(self, canisters: Iterable[AnyCanister]) -> None:
        """Remove canisters that were added but not stored."""
        removed_ids = {id(canister) for canister in canisters}
        with self._save_lock:
            own_canisters = self._own_canisters()
            start = 0 if self._stored is None else self._stored.canisters
            remaining = [
                canister for canister in own_canisters[start:] if id(canister) not in removed_ids
            ]
            # A new list, as forks may still share the old one.
            self._canisters = [*own_canisters[:start], *remaining]

    def _access_stored(self, store: ConversationStore) -> _StoredState:
        if self._stored is not None and self._stored.store == store:
            return self._stored
        try:
            stored = self._create(store)
        except StoreError:
            created = self._find_created(store)
            if created is None:
                raise
            stored = created
        self.metadata, self._store_of_parent = stored.metadata, store
        # Last: after an interrupt before this, the next save calls `_find_created`.
        self._stored = stored
        return stored

    def _create(self, store: ConversationStore) -> _StoredState:
        if (parent := self._unsaved_parent) is not None:
            parent.save(store, merge=True)
            link = ParentLink(identity=parent.id, canisters=0)
            self.metadata = attrs.evolve(self.metadata, parent=link)
            self._store_of_parent, self._unsaved_parent = store, None
        metadata = self.metadata
        if metadata.parent is not None and self._store_of_parent == store:
            with suppress(UnknownConversationError):  # the parent was deleted in the meantime
                return self._create_with(store, metadata)
        return self._create_with(store, attrs.evolve(metadata, parent=None))

    def _create_with(
        self, store: ConversationStore, metadata: ConversationMetadata
    ) -> _StoredState:
        inherited = 0 if metadata.parent is None else metadata.parent.canisters or 0
        own_canisters = self._canisters_since(inherited)
        # A compacted fork is created with its messages: it is never seen without them.
        if any(isinstance(each, DocumentCanister) and each.summarizes for each in own_canisters):
            position = store.plant(self.id, metadata, own_canisters)
            return _StoredState(store, position, inherited + len(own_canisters), metadata)
        return _StoredState(store, store.create(self.id, metadata), inherited, metadata)

    def _find_created(self, store: ConversationStore) -> _StoredState | None:
        """Find a conversation that an interrupted save has created in the store."""
        with suppress(StoreError):
            history = store.read(self.id)
            ours = [canister.id for canister in self._canisters_since(0)]
            theirs = [canister.id for canister in history.canisters]
            # Another conversation may have the id: compare its time and first canisters.
            is_ours = history.metadata.created == self.metadata.created
            if is_ours and theirs == ours[: len(theirs)]:
                return _StoredState(store, history.position, len(theirs), self.metadata)
        return None

    def _canisters_since(self, start: int) -> list[AnyCanister]:
        shared = self._shared_count
        return self._canisters[start:shared]

    def _append(self, stored: _StoredState, merge: bool) -> bool:
        """Store new canisters. Return whether other programs have added some, which are loaded."""
        has_others = False
        while True:
            new = self._canisters_since(stored.canisters)
            try:
                receipt = stored.store.append(self.id, new, after=stored.position)
            except StaleConversationError:
                history = stored.store.read(self.id)
                added_ids = [canister.id for canister in history.canisters[stored.canisters :]]
                new_ids = [canister.id for canister in new]
                # An interrupted save may have stored the new canisters: do not store them twice.
                if added_ids != new_ids[: len(added_ids)]:
                    has_others = True
                if has_others and not merge:
                    raise
                self._stored = stored = self._insert_others(stored, history, has_others)
            else:
                break
        count = stored.canisters + len(new)
        self._stored = _StoredState(stored.store, receipt.position, count, stored.metadata)
        self.notices += receipt.notices
        if new:
            self._last_append = access_now()
        return has_others

    def _insert_others(
        self, stored: _StoredState, history: History, has_others: bool
    ) -> _StoredState:
        """Put canisters that other programs have added before those that are not stored."""
        if has_others:
            stored_ids = {canister.id for canister in history.canisters}
            known = {canister.id: canister for canister in self._own_canisters()}
            new = self._canisters_since(stored.canisters)
            # Keep the objects in memory, as the objects from the store lack the bytes of their
            # media.
            merged = [known.get(canister.id, canister) for canister in history.canisters]
            self._canisters = [*merged, *(each for each in new if each.id not in stored_ids)]
        return attrs.evolve(stored, position=history.position, canisters=len(history.canisters))

    def _save_metadata(self) -> None:
        stored = self._stored
        assert stored is not None
        ours, theirs = self._metadata, stored.metadata
        if ours is theirs:
            return
        changes = theirs.compare(ours)
        if changes:
            self.metadata = stored.store.update_metadata(self.id, **changes)
        self._stored = attrs.evolve(stored, metadata=self._metadata)

    @classmethod
    def restore(cls, store: ConversationStore, id: str) -> Conversation:  # noqa: A002
        """Read a conversation from a store, without the bytes of media.

        Raises:
            UnknownConversationError: The id is unknown.
            CorruptionError: The conversation is damaged; the error names file and line.
        """
        return cls.from_history(store, store.read(id))

    @classmethod
    def from_history(cls, store: ConversationStore, history: History) -> Conversation:
        """Create a conversation from a history that was read from a store."""
        conversation = cls(
            id=history.identity, canisters=history.canisters, metadata=history.metadata
        )
        conversation.notices, conversation._store_of_parent = history.notices, store
        conversation._stored = _StoredState(
            store, history.position, len(history.canisters), history.metadata
        )
        return conversation


def _rebuild(
    identity: str,
    canisters: tuple[AnyCanister, ...],
    metadata: ConversationMetadata,
    notices: tuple[Finding, ...],
) -> Conversation:
    """Return a conversation that is unpickled."""
    conversation = Conversation(id=identity, canisters=canisters, metadata=metadata)
    conversation.notices = notices
    return conversation
