"""Compaction of the logs of runs that ended long ago; events that explain a run stay.

Compaction removes intermediate states, retries, refusals of late answers, and copies of data that
the conversation beside the log has under the same id. Everything derived from a log (the summary
of a run, its usage, replays and comparisons) is the same before and after. The content of a
removed copy can be read from the conversation. Numbers of events do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

import attrs
import msgspec

from vibe_llms.conversations.run_logs.log import LoggedEvent, RunLog
from vibe_llms.conversations.run_logs.log_lines import (
    open_envelope,
    read_envelope,
    read_head,
    write_logged,
)
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.engine import (
    ApprovalRequestedEvent,
    GenerationAnsweredEvent,
    GenerationFailedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
)
from vibe_llms.events.flow import FlowEndedEvent, LogEvent
from vibe_llms.exceptions import ConverseError, CorruptionError, StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.argument_faults import ArgumentFault
from vibe_llms.invocables.calls import canonicalize, read_arguments
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister
from vibe_llms.messages.identities import access_now

_REMOVABLE: Final = frozenset({"run.state", "run.retried", "approval.refused"})
"""Events that are not needed once their run has ended."""

_ENDS: Final = frozenset({"run.ended", "flow.ended"})

_Canister = TypeVar("_Canister", bound=AnyCanister)


@frozen(kw_only=True)
class Compaction:
    """Result of compacting a log: its size before and after.

    Attributes:
        identity: Id of the conversation.
        until: Number of the last event that was considered.
        events: Number of events before and after.
        size_bytes: Size of the events in bytes before and after.
    """

    identity: str
    until: int
    events: tuple[int, int]
    size_bytes: tuple[int, int]


def find_moment(days: float) -> datetime:
    """Return the time a number of days ago, as given by the limit ``log_days``."""
    return access_now() - timedelta(days=days)


def compact_logs(
    store: ConversationStore, before: datetime, should_continue: Callable[[], bool] = lambda: True
) -> Iterator[Compaction]:
    """Compact all logs of a store; skip those that are claimed or damaged.

    Does file work.

    Args:
        before: Compact only runs that had ended by this time.
        should_continue: Called before each log; if it returns False, no further logs are compacted.
    """
    for identity in store.survey():
        if not should_continue():
            return
        try:
            compaction = compact_log(store, identity, before)
        except StoreError:  # deleted in the meantime, damaged, or active
            continue
        if compaction is not None:
            yield compaction


def compact_log(store: ConversationStore, identity: str, before: datetime) -> Compaction | None:
    """Compact the log of a conversation up to the last end that settles all events before it.

    Does file work. Atomic: after a crash, the log is either unchanged or compacted.

    Args:
        before: Compact only runs that had ended by this time.

    Returns:
        The result; ``None`` if there is nothing to do.

    Raises:
        UnknownConversationError: The conversation does not exist.
        CorruptionError: The log or the conversation cannot be read.
        StoreError: A run of the conversation is active, or the conversation could not be written.
    """
    log = store.open_log(identity)
    if not _has_ends(log, before):
        return None
    log.claim()
    try:
        with store.transact():
            # A message that is in both the inbox and the log is recognized by the log's entry.
            if not store.open_inbox(identity).is_empty:
                return None
            log.read()  # proves that no line is missing, while that can still be checked
            old = _read_lines(log, before)
            until = read_head(old[-1]).sequence
            new = shorten(old, store.read(identity).canisters)
            new[-1] = _mark(new[-1], len(new))
            log.replace(new, until)
    finally:
        log.close()
    return Compaction(
        identity=identity,
        until=until,
        events=(len(old), len(new)),
        size_bytes=(sum(map(len, old)), sum(map(len, new))),
    )


def _has_ends(log: RunLog, before: datetime) -> bool:
    """Tell whether a run has ended since the log was last compacted."""
    last = log.read_last()
    if last is None or last.kept:
        return False
    lines = _read_lines(log, before)
    return bool(lines) and not read_envelope(lines[-1]).kept


def _read_lines(log: RunLog, before: datetime) -> list[bytes]:
    """Return the lines up to the last end before a time that settles all lines before it."""
    tail, found, end = log.tail(), list[bytes](), 0
    while lines := tail.read():
        for line in lines:
            found.append(line.data.rstrip())  # lines of one append end in a tab
            if line.word in _ENDS:
                logged = _open(found[-1])
                if logged.timestamp >= before:
                    return found[:end]
                if logged.kept or _settles(logged.event):
                    end = len(found)
    return found[:end]


def _open(line: bytes) -> LoggedEvent:
    try:
        return open_envelope(read_envelope(line))
    except (msgspec.MsgspecError, ConverseError) as error:
        raise CorruptionError(detail=f"Cannot read an event: {error}.") from error


def _settles(event: LogEvent) -> bool:
    if isinstance(event, FlowEndedEvent):
        return event.reason not in ("waiting", "cancelled")
    return isinstance(event, RunEndedEvent) and event.settles


def shorten(lines: Sequence[bytes], canisters: Sequence[AnyCanister]) -> list[bytes]:
    """Return the lines of ended runs without removable data, and without marks.

    Idempotent.

    Args:
        lines: Lines of a log.
        canisters: All canisters of its conversation.

    Raises:
        CorruptionError: A line cannot be read.
    """
    stored = {each.id: each for each in canisters}  # oldest first
    needed = [line for line in lines if read_head(line).word not in _REMOVABLE]
    return [_shorten(line, stored) for line in needed]


def _shorten(line: bytes, stored: Mapping[str, AnyCanister]) -> bytes:
    logged = _open(line)
    event = _drop_copies(logged.event, stored)
    if event == logged.event and not logged.kept:
        return line
    return write_logged(attrs.evolve(logged, event=event, kept=0))


def _mark(line: bytes, count: int) -> bytes:
    return write_logged(attrs.evolve(_open(line), kept=count))


def _drop_copies(event: LogEvent, stored: Mapping[str, AnyCanister]) -> LogEvent:
    """Return an event without copies of data in the conversation."""
    match event:
        case InvocationFinishedEvent():
            return attrs.evolve(event, result=_drop_content(event.result, stored))
        case InvocationStartedEvent() | ApprovalRequestedEvent():
            is_copy = event.arguments and event.arguments == _find_arguments(stored.get(event.key))
            return attrs.evolve(event, arguments="") if is_copy else event
        case GenerationAnsweredEvent():
            *_, last_id = stored or (None,)
            is_copy = event.key in stored and event.key != last_id  # more came after it
            return attrs.evolve(event, body="") if is_copy else event
        case GenerationFailedEvent():
            canisters = tuple(_drop_content(each, stored) for each in event.canisters)
            return attrs.evolve(event, canisters=canisters)
    return event


def _drop_content(canister: _Canister, stored: Mapping[str, AnyCanister]) -> _Canister:
    """Return a canister without its content if the conversation has the same canister."""
    if isinstance(canister, InvocationCanister) or not canister.content:
        return canister
    return attrs.evolve(canister, content=()) if stored.get(canister.id) == canister else canister


def _find_arguments(canister: AnyCanister | None) -> str | None:
    """Return the arguments of a call in the form that a log uses."""
    if not isinstance(canister, InvocationCanister):
        return None
    try:
        arguments = read_arguments(canister)
        return None if isinstance(arguments, ArgumentFault) else canonicalize(arguments)
    except ConverseError:
        return None
