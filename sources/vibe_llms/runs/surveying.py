"""States of a store's runs: for most runs, the last event is enough to tell."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from typing import Final, TypeAlias, get_args

import attrs

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.log import RunLog
from vibe_llms.conversations.run_logs.log_lines import read_head
from vibe_llms.conversations.stores.defaults import require_logs
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import survey_labels
from vibe_llms.events.engine import RunEndedEvent, RunStartedEvent, RunSuspendedEvent
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent, LogEvent
from vibe_llms.events.runs import RunRequestedEvent, RunRetriedEvent
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.identities import access_now
from vibe_llms.runs.summaries import RunFold, RunState, RunSummary

STATES: Final[tuple[RunState, ...]] = get_args(RunState)
"""All states of runs."""

RESTS: Final[frozenset[RunState]] = frozenset({"ended", "stopped"})
"""States in which a run stays unless a user continues it."""

OPEN: Final[frozenset[RunState]] = frozenset({"queued", "due", "working", "broken_off"})
"""States in which a run has to be executed."""

_RESTED: Final[frozenset[RunState]] = frozenset({"queued", "ended"})
_SUSPENDED: Final[frozenset[RunState]] = frozenset({"queued", "waiting", "due"})
_BEGUN: Final[frozenset[RunState]] = frozenset({"working", "broken_off", "stopped"})
_REQUEST: Final = "run.requested"
_BEGINNINGS: Final = frozenset({"run.started", "flow.started"})
_ENDINGS: Final = frozenset({"run.ended", "flow.ended", "run.suspended"})
_TURNS: Final = tuple(f'"{word}"'.encode() for word in (_REQUEST, *_BEGINNINGS, *_ENDINGS))
_REQUESTED: Final[frozenset[RunState]] = frozenset({"queued", "working", "broken_off"})


def read_summary(store: ConversationStore, identity: str) -> RunSummary:
    """Return the summary of a run. Does file work.

    Args:
        identity: Id of its conversation.

    Raises:
        UnknownConversationError: The conversation does not exist in the store.
        StoreError: It has no run, or the store keeps no logs of runs.
        CorruptionError: Its log cannot be read.
    """
    require_logs(store)
    return require_run(store, identity, summarize_run(store, identity))


def require_run(store: ConversationStore, identity: str, summary: RunSummary | None) -> RunSummary:
    """Return the summary of a run; raise StoreError if there is none."""
    if summary is None:
        store.read_metadata(identity)  # raises if the conversation does not exist at all
        raise StoreError(
            detail=f"{identity} is a conversation without a run.",
            remedy="`vibe runs list` lists those with runs.",
        )
    return summary


def survey_states(last: LogEvent) -> frozenset[RunState]:
    """Return the possible states of a run, judged by its last event."""
    match last:
        case RunRequestedEvent():
            return _REQUESTED
        case RunStartedEvent() | FlowStartedEvent():
            return _BEGUN
        case RunSuspendedEvent() | FlowEndedEvent(reason="waiting"):
            return _SUSPENDED
        case RunEndedEvent() | FlowEndedEvent() if last.reason != "cancelled":
            return _RESTED
    return frozenset(STATES)


def is_requested_again(log: RunLog, possible: frozenset[RunState]) -> bool:
    """Tell whether a run that may be queued is queued: it was requested again after it started.

    Decodes lines only as far as needed.

    Args:
        possible: Possible states, judged by its last event.
    """
    if possible not in (_RESTED, _SUSPENDED):
        return True
    tail, is_started, is_requested, is_queued = log.tail(), False, False, False
    while data := tail.read_raw()[0]:
        if not any(word in data for word in _TURNS):
            continue  # like most of a long log
        for line in data.splitlines():
            try:
                word = read_head(line).word
            except UNREADABLE:  # reported when the whole log is read
                return True
            if word in _BEGINNINGS:
                is_started, is_requested = True, False
            elif word == _REQUEST:
                is_requested = is_started
            elif word in _ENDINGS:
                is_queued, is_started, is_requested = is_requested, False, False
    return is_queued


def is_over(log: RunLog, last: LogEvent) -> bool:
    """Tell whether a run has certainly ended, without reading the whole log.

    Args:
        last: The last event of the log.
    """
    possible = survey_states(last)
    return possible == _RESTED and not is_requested_again(log, possible)


_MAX_READS: Final = 3
"""Number of times a log is read, if it changes each time, before its run counts as dead."""

_Read: TypeAlias = Callable[[ConversationStore, str], tuple[RunSummary | None, tuple[str, ...]]]


def fold_log(store: ConversationStore, identity: str) -> tuple[RunSummary | None, tuple[str, ...]]:
    """Read the log of a run; return its summary by that log alone, and its open visits.

    Raises:
        CorruptionError: The log cannot be read.
    """
    fold = RunFold(identity)
    for each in store.open_log(identity).read():
        fold.feed(each)
    return (None if fold.is_empty else fold.summarize()), fold.visits


def summarize_run(
    store: ConversationStore, identity: str, read: _Read = fold_log
) -> RunSummary | None:
    """Return the summary of a run, for a flow with its visits; ``None`` for an empty log.

    Args:
        read: Reads a log.
    """
    for reads in range(1, _MAX_READS + 1):
        found, visits = read(store, identity)
        if found is None:
            return None
        summary = complete_summary(found, store.read_metadata(identity))
        if not summary.starts or _is_alive(store, summary):
            break
        last = store.open_log(identity).read_last()
        if last is None or last.sequence == summary.sequence or reads == _MAX_READS:
            summary = _describe_dead(summary)
            break
        # It came to rest, or was resumed, since the log was read.
    return _join_visits(store, summary, visits, read) if visits else summary


def _describe_dead(summary: RunSummary) -> RunSummary:
    """Return the summary of a run that was started and whose process is gone."""
    state: RunState = summary.state
    if state == "working":  # with a detail, its host has left it in an orderly way
        state = "due" if summary.detail else "broken_off"
    return attrs.evolve(summary, state=state, starts=0)


def _is_alive(store: ConversationStore, summary: RunSummary) -> bool:
    """Tell whether a run that was started and has not come to rest still has a process."""
    log = store.open_log(summary.id)
    if log.is_claimed:
        return True
    # A run that waits for a retry has a detail; its host will claim it again.
    return bool(summary.detail) and is_pausing(store, summary.id)


def is_pausing(store: ConversationStore, run_id: str) -> bool:
    """Tell whether a run waits for a retry, and has received no message since.

    Does file work.

    Raises:
        StoreError: Its log cannot be read.
    """
    last = store.open_log(run_id).read_last()
    if last is None or not isinstance(last.event, RunRetriedEvent):
        return False
    return access_now() < last.timestamp + timedelta(seconds=last.event.seconds)


def complete_summary(summary: RunSummary, metadata: ConversationMetadata) -> RunSummary:
    """Add facts from the metadata of the conversation that are not in the log of its run."""
    return attrs.evolve(
        summary,
        name=metadata.name or summary.name,
        model=summary.model or metadata.model or "",
        origin=metadata.parent.identity if metadata.parent else "",
        tags=survey_labels(metadata.tags),
    )


def _join_visits(
    store: ConversationStore,
    summary: RunSummary,
    identities: Collection[str],
    read: _Read,
) -> RunSummary:
    """Add the approvals that a flow's visits wait for: those are in the visits' conversations."""
    visits = []
    for identity in identities:
        with suppress(UnknownConversationError):  # cut off before its first message was stored
            if visit := summarize_run(store, identity, read):
                visits.append(visit)
    waiting = sum(visit.waiting for visit in visits)
    is_due = not waiting or any(visit.state == "due" for visit in visits)
    state = "due" if summary.state == "waiting" and is_due else summary.state
    return attrs.evolve(summary, state=state, waiting=summary.waiting + waiting)
