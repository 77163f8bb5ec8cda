"""Defaults for the optional members of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from vibe_llms.exceptions import StoreError

if TYPE_CHECKING:
    from vibe_llms.conversations.index.interfaces import Index
    from vibe_llms.conversations.metadata import ConversationMetadata
    from vibe_llms.conversations.notes.interfaces import NoteStore
    from vibe_llms.conversations.run_logs.inbox import RunInbox, RunMessage
    from vibe_llms.conversations.run_logs.log import RunLog
    from vibe_llms.conversations.stores.interfaces import (
        ContentBackends,
        ConversationStore,
        History,
        Position,
    )
    from vibe_llms.messages.canisters import AnyCanister
    from vibe_llms.messages.vendor_files import VendorFileNotes


class StoreDefaults:
    """Base class of stores, with a default for each optional member of ``ConversationStore``.

    With these defaults, a store keeps no logs of runs.
    """

    __slots__ = ()

    keeps_logs = False
    plants_whole = False

    @property
    def index(self: ConversationStore) -> Index:
        """Index that reads all conversations for each list and each search."""
        from vibe_llms.conversations.index.reading_index import ReadingIndex

        return ReadingIndex(self)

    @property
    def content_backends(self) -> ContentBackends | None:
        """``None``: all bytes are in the store."""
        return None

    @property
    def vendor_files(self) -> VendorFileNotes:
        """No notes: vendors' files are remembered only by the process that uploaded them."""
        from vibe_llms.messages.vendor_files import NO_NOTES

        return NO_NOTES

    @property
    def notes(self) -> NoteStore:
        """No notes: changing one is an error."""
        from vibe_llms.conversations.notes.interfaces import NoNotes

        return NoNotes(type(self).__name__)

    def measure_logs(self: ConversationStore) -> Mapping[str, object]:
        """Return the measures of all logs of runs; opens the log of each conversation."""
        return {identity: self.open_log(identity).measure() for identity in self.survey()}

    def open_log(self, identity: str) -> RunLog:
        """Return a new log in memory, which exists as long as the caller refers to the log."""
        from vibe_llms.conversations.run_logs.memory_log import MemoryLog

        return MemoryLog()

    def open_inbox(self, identity: str) -> RunInbox:
        """Return a new inbox in memory, which only the caller can write to."""
        from vibe_llms.conversations.run_logs.inbox import MemoryInbox

        return MemoryInbox()

    def transact(self, *, reading: bool = False) -> AbstractContextManager[object]:
        """Do nothing: each method of the store is independent."""
        return nullcontext()

    def plant(
        self: ConversationStore,
        identity: str,
        metadata: ConversationMetadata,
        canisters: Sequence[AnyCanister],
        *,
        events: Sequence[bytes] = (),
        messages: Sequence[RunMessage] = (),
    ) -> Position:
        """Create the conversation, then add its canisters, its log and its messages."""
        with self.transact():
            self.create(identity, metadata)
            position = self.append(identity, canisters).position
            if events:
                adopt_lines(self, identity, events)
            for message in messages:
                self.open_inbox(identity).put(message)
        return position

    def read_on(self, identity: str, after: Position) -> History | None:
        """Return ``None``: the conversation is read as a whole."""
        return None


def adopt_lines(
    store: ConversationStore,
    identity: str,
    lines: Sequence[bytes],
    *,
    last: int = 0,
    replaces: bool = False,
) -> None:
    """Append lines of another log to the log of a conversation.

    Args:
        last: Number of the last event that the log has.
        replaces: Replace all present events by the lines.

    Raises:
        StoreError: The store or its log cannot do this, or a run has written to the log.
    """
    if not store.keeps_logs:
        raise StoreError(
            detail=f"{type(store).__name__} cannot take over logs of runs.",
            remedy="Choose a store that keeps logs (`keeps_logs`, `open_log`).",
        )
    log = store.open_log(identity)
    log.claim()
    try:
        last_event = log.read_last()
        current = last_event.sequence if last_event else 0
        if current != last:
            raise StoreError(detail="A run has written to its log in the meantime.")
        if replaces:
            log.replace(lines, last)
        else:
            log.adopt(lines)
    finally:
        log.close()


def require_logs(store: ConversationStore) -> None:
    """Raise StoreError if a store does not keep logs of runs."""
    if not store.keeps_logs:
        raise StoreError(
            detail=f"{type(store).__name__} keeps no logs of runs: only the process of a run "
            "knows what the run waits for.",
            remedy="Answer there, or choose a store that keeps logs (`keeps_logs`, `open_log`).",
        )
