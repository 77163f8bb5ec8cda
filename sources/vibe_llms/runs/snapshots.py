"""Snapshots: a conversation with its log and inbox, moved from one store to another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Self

import attrs

from vibe_llms.conversations.metadata import ConversationMetadata, ParentLink
from vibe_llms.conversations.run_logs.inbox import RunMessage
from vibe_llms.conversations.run_logs.log import RunLog
from vibe_llms.conversations.run_logs.log_lines import Flaw, find_base, read_head, read_lines
from vibe_llms.conversations.stores.defaults import adopt_lines
from vibe_llms.conversations.stores.identities import find_references
from vibe_llms.conversations.stores.interfaces import ConversationStore, History, Position
from vibe_llms.events.codec import encode_event
from vibe_llms.exceptions import CorruptionError, Finding, StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.runs.compacting import shorten
from vibe_llms.runs.summaries import RunFold, RunState

_MAX_READS: Final = 16
"""Maximum number of attempts to read a fork consistently while other processes write to it."""


@frozen(kw_only=True)
class Snapshot:
    """A conversation as it was in a store at one moment.

    Attributes:
        identity: Id of the conversation.
        metadata: Metadata; the position in the parent is a number of canisters, which every store
            understands.
        canisters: All canisters, those inherited from parents first.
        inherited: Number of canisters inherited from parents.
        canister_lines: The canisters as lines.
        events: Lines of its log.
        messages: Messages in its inbox, oldest first.
        position: Position of the end in the store from which the conversation was read.
        is_working: Whether a run of it is active, or was cut off.
        notices: Notices from reading it.
        run_state: State of its run; ``None`` without one.
    """

    identity: str
    metadata: ConversationMetadata
    canisters: tuple[AnyCanister, ...]
    inherited: int
    canister_lines: tuple[bytes, ...]
    events: tuple[bytes, ...]
    messages: tuple[RunMessage, ...]
    position: Position
    is_working: bool
    notices: tuple[Finding, ...]
    run_state: RunState | None = attrs.field(default=None, eq=False)

    @property
    def is_at_rest(self) -> bool:
        """True if no run of it has to be executed or waits, and no message waits for a run."""
        return self.run_state in (None, "ended", "stopped") and not self.messages

    @classmethod
    def begin(
        cls,
        identity: str,
        metadata: ConversationMetadata,
        canisters: Sequence[AnyCanister],
        events: Sequence[bytes],
    ) -> Self:
        """Make a snapshot of a conversation to be created, with the first lines of its log."""
        return cls(
            identity=identity,
            metadata=metadata,
            canisters=tuple(canisters),
            inherited=0,
            canister_lines=(),
            events=tuple(events),
            messages=(),
            position=Position(),
            is_working=False,
            notices=(),
        )

    @property
    def references(self) -> set[str]:
        """Ids of all content that its own canisters refer to."""
        own = (
            *self.canister_lines[self.inherited :],
            *self.events,
            *map(encode_event, self.messages),
        )
        return set().union(*map(find_references, own))


def take_snapshot(store: ConversationStore, identity: str) -> Snapshot:
    """Read a conversation with its log and inbox, while other processes may append.

    Data that is read first is never ahead of data that is read later. A message is in the inbox or
    in the log; it may harmlessly be in both. The conversation may be ahead of the log, as after a
    run was killed.

    Raises:
        UnknownConversationError: The conversation does not exist.
        CorruptionError: Something of it is damaged.
        StoreError: The store cannot be read.
    """
    from vibe_llms.messages.codec.canister_lines import encode_canister

    with store.transact(reading=True):
        store.read_metadata(identity)  # reports an unknown conversation as such
        messages = tuple(store.open_inbox(identity).read())
        events = _read_lines(store.open_log(identity)) if store.keeps_logs else ()
        history, inherited = _read_history(store, identity)
    run_state = _find_state(identity, events)
    return Snapshot(
        identity=identity,
        metadata=_link_by_number(history.metadata, inherited),
        canisters=history.canisters,
        inherited=inherited,
        canister_lines=tuple(encode_canister(each) for each in history.canisters),
        events=events,
        messages=messages,
        position=history.position,
        is_working=run_state == "working",
        notices=history.notices,
        run_state=run_state,
    )


def _read_lines(log: RunLog) -> tuple[bytes, ...]:
    tail, found = log.tail(), list[bytes]()
    while lines := tail.read():
        found += [line.data.rstrip() for line in lines]  # lines of one append end in a tab
    return tuple(found)


def _read_history(store: ConversationStore, identity: str) -> tuple[History, int]:
    """Read a conversation, and count the canisters inherited from its parents."""
    for _ in range(_MAX_READS):
        history = store.read(identity)
        link = history.metadata.parent
        if link is None or link.canisters is not None:
            return history, (link.canisters or 0) if link else 0
        own_count = store.examine(identity).canisters
        if store.read(identity).position == history.position:
            return history, len(history.canisters) - own_count
    raise StoreError(
        detail=f"{identity} keeps changing.", remedy="Try again when its writers have stopped."
    )


def _link_by_number(metadata: ConversationMetadata, inherited: int) -> ConversationMetadata:
    if metadata.parent is None:
        return metadata
    link = ParentLink(identity=metadata.parent.identity, canisters=inherited)
    return attrs.evolve(metadata, parent=link)


def _find_state(identity: str, events: Sequence[bytes]) -> RunState | None:
    fold = RunFold(identity)
    for each in read_lines(events):
        if isinstance(each, Flaw):
            detail = f"Cannot read an event of {identity}: {each.detail}."
            raise CorruptionError(path=identity, line=each.line, detail=detail)
        fold.feed(each)
    return fold.summarize().state if events else None


def copy_content(source: ConversationStore, target: ConversationStore, content_id: str) -> None:
    """Copy content to a store that does not have it.

    Raises:
        StoreError: It does not exist in the source, or a store cannot be used.
    """
    if not target.contents.contains(content_id):
        about = source.contents.access_metadata(content_id)
        data = source.contents.read(content_id)
        target.contents.add(data, mime_type=about.mime_type, name=about.name)


def copy_references(
    source: ConversationStore, target: ConversationStore, content_ids: Iterable[str]
) -> None:
    """Copy the content that a conversation refers to; it must exist before the conversation.

    Content may be missing in the source if it has a URL or a file id; otherwise the target refuses
    the conversation.
    """
    for content_id in sorted(content_ids):
        if source.contents.contains(content_id):
            copy_content(source, target, content_id)


def plant(store: ConversationStore, snapshot: Snapshot) -> Position:
    """Add a conversation to a store that does not have its id; return the position of its end.

    Raises:
        StoreError: The id is taken, the parent or content that it refers to is missing, or the
            store cannot be written to.
    """
    return store.plant(
        snapshot.identity,
        snapshot.metadata,
        snapshot.canisters[snapshot.inherited :],
        events=snapshot.events,
        messages=snapshot.messages,
    )


def extend(store: ConversationStore, snapshot: Snapshot, existing: Snapshot) -> None:
    """Extend a conversation with the additions of a later snapshot.

    In a database this is atomic. Elsewhere canisters are written first: after a crash in between,
    the conversation looks as it does after a killed run.

    Args:
        existing: Current data in the store, a prefix of the snapshot.

    Raises:
        StoreError: A run of the conversation is active in that store, another process has appended
            to the conversation meanwhile, or the store cannot be written to.
    """
    old, new = existing.metadata, snapshot.metadata
    with store.transact():
        rest = snapshot.canisters[len(existing.canisters) :]
        if rest:
            store.append(snapshot.identity, rest, after=existing.position)
        changes = old.compare(new)
        if changes:
            store.update_metadata(snapshot.identity, **changes)
        _extend_run_data(store, snapshot, existing)


def _find_last(lines: Sequence[bytes]) -> int:
    return read_head(lines[-1]).sequence if lines else 0


def is_prefix(existing: Snapshot, snapshot: Snapshot) -> bool:
    """Tell whether the events of one snapshot are a prefix of the other snapshot's events.

    Events that a later compaction has removed from the log are ignored.
    """
    old, new = existing.events, snapshot.events
    if new[: len(old)] == old:
        return True
    if _find_base(new) <= _find_base(old):
        return False
    last = _find_last(old)
    new = tuple(line for line in new if read_head(line).sequence <= last)
    return shorten(old, snapshot.canisters) == shorten(new, snapshot.canisters)


def _find_base(lines: Sequence[bytes]) -> int:
    return (find_base(lines) or (0, 0))[1]


def _extend_run_data(store: ConversationStore, snapshot: Snapshot, existing: Snapshot) -> None:
    known = len(existing.events)
    is_compacted = snapshot.events[:known] != existing.events
    if lines := snapshot.events if is_compacted else snapshot.events[known:]:
        last = _find_last(existing.events)
        adopt_lines(store, snapshot.identity, lines, last=last, replaces=is_compacted)
    inbox = store.open_inbox(snapshot.identity)
    for message in snapshot.messages:
        if message not in existing.messages:
            inbox.put(message)
