"""A conversation with all that lives beside it, taken out of one store and brought into another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

import attrs

from vibe_llms.conversations.metadata import ConversationMetadata, ParentLink
from vibe_llms.conversations.run_logs.inbox import RunMessage
from vibe_llms.conversations.run_logs.lines import Flaw, find_base, read_head, read_lines
from vibe_llms.conversations.run_logs.log import RunLog
from vibe_llms.conversations.stores.defaults import adopt_lines
from vibe_llms.conversations.stores.interfaces import ConversationStore, History, Position
from vibe_llms.conversations.stores.naming import find_references
from vibe_llms.events.codec import encode_event
from vibe_llms.exceptions import CorruptionError, Finding, StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.runs.compacting import shorten
from vibe_llms.runs.summaries import RunFold

_LOOKS: Final = 16
"""How often a fork that others go on writing to is looked at, until nothing came in between."""


@frozen(kw_only=True)
class Snapshot:
    """A conversation as a store had it at one moment.

    Attributes:
        identity: The id of the conversation.
        metadata: Its parent is given by a number of canisters, which every store understands.
        canisters: All that was said, what it has from its parents first.
        inherited: How many of them it has from its parents.
        said: The canisters as lines.
        events: The lines of its log.
        letters: What its inbox held, oldest first.
        position: Where it ended, for the store that it is from.
        is_working: A run of it is on its way, or was cut off.
        notices: What was found on the way.
    """

    identity: str
    metadata: ConversationMetadata
    canisters: tuple[AnyCanister, ...]
    inherited: int
    said: tuple[bytes, ...]
    events: tuple[bytes, ...]
    letters: tuple[RunMessage, ...]
    position: Position
    is_working: bool
    notices: tuple[Finding, ...]

    @classmethod
    def begin(
        cls,
        identity: str,
        metadata: ConversationMetadata,
        canisters: Sequence[AnyCanister],
        events: Sequence[bytes],
    ) -> Self:
        """Makes one of a conversation that is about to be, with the first lines of its log."""
        return cls(
            identity=identity,
            metadata=metadata,
            canisters=tuple(canisters),
            inherited=0,
            said=(),
            events=tuple(events),
            letters=(),
            position=Position(),
            is_working=False,
            notices=(),
        )

    @property
    def references(self) -> set[str]:
        """The ids of all content that it names by itself."""
        own = (*self.said[self.inherited :], *self.events, *map(encode_event, self.letters))
        return set().union(*map(find_references, own))


def take_snapshot(store: ConversationStore, identity: str) -> Snapshot:
    """Reads a conversation with all that lives beside it, while others may add to it.

    What is read first is never ahead of what is read later: a letter may be both in the inbox
    and in the log, which costs nothing, but is in one of them; and what was said may be further
    than the log, as after the sudden end of a run.

    Raises:
        UnknownConversationError: There is no such conversation.
        CorruptionError: Something of it is damaged.
        StoreError: The store cannot be read.
    """
    from vibe_llms.messages.codec.lines import encode_canister

    with store.transact(reading=True):
        store.read_metadata(identity)  # an unknown one is told as such
        letters = tuple(store.open_inbox(identity).read())
        events = _read_lines(store.open_log(identity)) if store.keeps_logs else ()
        history, inherited = _read_history(store, identity)
    return Snapshot(
        identity=identity,
        metadata=_link_by_number(history.metadata, inherited),
        canisters=history.canisters,
        inherited=inherited,
        said=tuple(encode_canister(each) for each in history.canisters),
        events=events,
        letters=letters,
        position=history.position,
        is_working=_is_working(identity, events),
        notices=history.notices,
    )


def _read_lines(log: RunLog) -> tuple[bytes, ...]:
    tail, found = log.tail(), list[bytes]()
    while lines := tail.read():
        found += [line.data.rstrip() for line in lines]  # those of one append end in a tab
    return tuple(found)


def _read_history(store: ConversationStore, identity: str) -> tuple[History, int]:
    """Reads a conversation, and counts what it has from its parents."""
    for _ in range(_LOOKS):
        history = store.read(identity)
        link = history.metadata.parent
        if link is None or link.canisters is not None:
            return history, (link.canisters or 0) if link else 0
        own = store.examine(identity).canisters
        if store.read(identity).position == history.position:
            return history, len(history.canisters) - own
    raise StoreError(
        detail=f"{identity} keeps changing.", remedy="Try again when its writers have stopped."
    )


def _link_by_number(metadata: ConversationMetadata, inherited: int) -> ConversationMetadata:
    if metadata.parent is None:
        return metadata
    link = ParentLink(identity=metadata.parent.identity, canisters=inherited)
    return attrs.evolve(metadata, parent=link)


def _is_working(identity: str, events: Sequence[bytes]) -> bool:
    fold = RunFold(identity)
    for each in read_lines(events):
        if isinstance(each, Flaw):
            detail = f"Cannot read an event of {identity}: {each.detail}."
            raise CorruptionError(path=identity, line=each.line, detail=detail)
        fold.feed(each)
    return bool(events) and fold.summarize().state == "working"


def plant(store: ConversationStore, snapshot: Snapshot) -> Position:
    """Bring a conversation into a store that has none of its identity; return where it ends.

    Raises:
        StoreError: The identity is taken, the parent or content that it names is missing, or the
            store cannot be written to.
    """
    return store.plant(
        snapshot.identity,
        snapshot.metadata,
        snapshot.canisters[snapshot.inherited :],
        events=snapshot.events,
        letters=snapshot.letters,
    )


def extend(store: ConversationStore, snapshot: Snapshot, existing: Snapshot) -> None:
    """Adds to a conversation what a later snapshot of the same has.

    In a database all of it is added, or nothing. Elsewhere, what was said comes first: a sudden
    end in between leaves the conversation as that of a run would.

    Args:
        existing: What the store has by now, a beginning of the snapshot.

    Raises:
        StoreError: A run of it is on its way there, others have added to it meanwhile, or the
            store cannot be written to.
    """
    old, new = existing.metadata, snapshot.metadata
    with store.transact():
        rest = snapshot.canisters[len(existing.canisters) :]
        if rest:
            store.append(snapshot.identity, rest, after=existing.position)
        if (old.name, old.tags, old.model) != (new.name, new.tags, new.model):
            store.update_metadata(snapshot.identity, name=new.name, tags=new.tags, model=new.model)
        _add_beside(store, snapshot, existing)


def _find_last(lines: Sequence[bytes]) -> int:
    return read_head(lines[-1]).sequence if lines else 0


def is_beginning(existing: Snapshot, snapshot: Snapshot) -> bool:
    """Tells whether the events of one are those that the other begins with.

    Where the log of the later one was compacted since, what has left it does not count.
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


def _add_beside(store: ConversationStore, snapshot: Snapshot, existing: Snapshot) -> None:
    known = len(existing.events)
    is_compacted = snapshot.events[:known] != existing.events
    if lines := snapshot.events[0 if is_compacted else known :]:
        last = _find_last(existing.events)
        adopt_lines(store, snapshot.identity, lines, last=last, replaces=is_compacted)
    inbox = store.open_inbox(snapshot.identity)
    for letter in snapshot.letters:
        if letter not in existing.letters:
            inbox.put(letter)
