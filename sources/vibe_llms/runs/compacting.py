"""Logs of runs that have ended long ago are made shorter; what explains a run stays.

What leaves are states between, retries, refusals of late answers, and copies: what the
conversation beside the log says, too, under the same id. So whatever is folded of a log (where a
run stands, what it used, what a replay and a comparison look at) is the same after as before, and
whoever needs what a copy said finds it in the conversation. Numbers of events stay what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

import attrs
import msgspec

from vibe_llms.conversations.run_logs.lines import (
    open_envelope,
    read_envelope,
    read_head,
    write_logged,
)
from vibe_llms.conversations.run_logs.log import CompactingLog, LoggedEvent, RunLog
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
from vibe_llms.invocables.calls import canonicalize, read_arguments
from vibe_llms.invocables.validation import ArgumentFault
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister
from vibe_llms.messages.identities import access_now

_GONE: Final = frozenset({"run.state", "run.retried", "approval.refused"})
"""The events that nothing needs once their run has ended."""

_ENDS: Final = frozenset({"run.ended", "flow.ended"})

_Canister = TypeVar("_Canister", bound=AnyCanister)


@frozen(kw_only=True)
class Compaction:
    """What a log had before, and has now.

    Attributes:
        identity: Of the conversation.
        until: The number of the last event that was looked at.
        events: How many there were, and are.
        size_bytes: How large they were, and are.
    """

    identity: str
    until: int
    events: tuple[int, int]
    size_bytes: tuple[int, int]


def find_moment(days: float) -> datetime:
    """Returns when it was so many days ago, as the limit ``log_days`` says it."""
    return access_now() - timedelta(days=days)


def compact_logs(
    store: ConversationStore, before: datetime, goes_on: Callable[[], bool] = lambda: True
) -> Iterator[Compaction]:
    """Compacts all logs of a store; passes those over that somebody has, or that are damaged.

    Does file work.

    Args:
        before: Only runs that had ended by then.
        goes_on: Tells, before each of them, whether it is to be looked at.
    """
    for identity in store.survey():
        if not goes_on():
            return
        try:
            done = compact_log(store, identity, before)
        except StoreError:  # deleted meanwhile, damaged, or at work
            continue
        if done is not None:
            yield done


def compact_log(store: ConversationStore, identity: str, before: datetime) -> Compaction | None:
    """Compacts the log of one conversation up to the last end that settles all before it.

    Does file work. A sudden end leaves the log as it was, or compacted.

    Args:
        before: Only runs that had ended by then.

    Returns:
        What has become of it; ``None`` where there is nothing to do.

    Raises:
        UnknownConversationError: There is no such conversation.
        CorruptionError: The log, or the conversation, does not read.
        StoreError: A run of it is on its way, or it could not be written.
    """
    log = store.open_log(identity)
    if not isinstance(log, CompactingLog) or not _has_ends(log, before):
        return None
    log.claim()
    try:
        with store.transact():
            # A letter that is still there, though the log has it, is known by what the log has.
            if not store.open_inbox(identity).is_empty:
                return None
            log.read()  # proves that no line is missing before that could no longer be told
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
    """Tells whether something has ended since the log was last compacted."""
    last = log.read_last()
    if last is None or last.kept:
        return False
    lines = _read_lines(log, before)
    return bool(lines) and not read_envelope(lines[-1]).kept


def _read_lines(log: RunLog, before: datetime) -> list[bytes]:
    """Returns the lines up to the last end by then that settles all before it, that included."""
    tail, found, end = log.tail(), list[bytes](), 0
    while lines := tail.read():
        for line in lines:
            found.append(line.data.rstrip())  # those of one append end in a tab
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
    """Returns lines without what leaves, and unmarked; those of runs that have ended.

    To shorten them again changes nothing.

    Args:
        lines: Of a log.
        canisters: All that its conversation has by now.

    Raises:
        CorruptionError: A line does not read.
    """
    said = {each.id: each for each in canisters}
    kept = [line for line in lines if read_head(line).word not in _GONE]
    return [_shorten(line, said) for line in kept]


def _shorten(line: bytes, said: Mapping[str, AnyCanister]) -> bytes:
    logged = _open(line)
    event = _strip(logged.event, said)
    if event == logged.event and not logged.kept:
        return line
    return write_logged(attrs.evolve(logged, event=event, kept=0))


def _mark(line: bytes, count: int) -> bytes:
    return write_logged(attrs.evolve(_open(line), kept=count))


def _strip(event: LogEvent, said: Mapping[str, AnyCanister]) -> LogEvent:
    """Returns an event without copies of what was said."""
    match event:
        case InvocationFinishedEvent():
            return attrs.evolve(event, result=_empty(event.result, said))
        case InvocationStartedEvent() | ApprovalRequestedEvent():
            is_copy = event.arguments and event.arguments == _find_arguments(said.get(event.key))
            return attrs.evolve(event, arguments="") if is_copy else event
        case GenerationAnsweredEvent():
            is_copy = event.key in said and event.key != [*said][-1]  # more came after it
            return attrs.evolve(event, body="") if is_copy else event
        case GenerationFailedEvent():
            canisters = tuple(_empty(each, said) for each in event.canisters)
            return attrs.evolve(event, canisters=canisters)
    return event


def _empty(canister: _Canister, said: Mapping[str, AnyCanister]) -> _Canister:
    """Returns a canister without its content, where the conversation has the same one."""
    if isinstance(canister, InvocationCanister) or not canister.content:
        return canister
    return attrs.evolve(canister, content=()) if said.get(canister.id) == canister else canister


def _find_arguments(canister: AnyCanister | None) -> str | None:
    """Returns with what a call was asked for, as a log says it."""
    if not isinstance(canister, InvocationCanister):
        return None
    try:
        arguments = read_arguments(canister)
        return None if isinstance(arguments, ArgumentFault) else canonicalize(arguments)
    except ConverseError:
        return None
