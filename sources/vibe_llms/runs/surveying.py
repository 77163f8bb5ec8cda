"""Where a run of a store stands: of most of them the last event says enough."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from typing import Final, TypeAlias, get_args

import attrs

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.lines import read_head
from vibe_llms.conversations.run_logs.log import ClaimedLog, RunLog
from vibe_llms.conversations.stores.defaults import require_logs
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.engine import RunEndedEvent, RunStartedEvent, RunSuspendedEvent
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent, LogEvent
from vibe_llms.events.runs import RunRequestedEvent, RunRetriedEvent
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.identities import access_now
from vibe_llms.runs.summaries import RunFold, RunState, RunSummary

STATES: Final[tuple[RunState, ...]] = get_args(RunState)
"""All that a run may be in."""

RESTS: Final[frozenset[RunState]] = frozenset({"ended", "stopped"})
"""In which nothing happens any more, unless somebody wants it to go on."""

OPEN: Final[frozenset[RunState]] = frozenset({"queued", "due", "working", "broken_off"})
"""In which somebody has to perform a run."""

_RESTED: Final[frozenset[RunState]] = frozenset({"queued", "ended"})
_SUSPENDED: Final[frozenset[RunState]] = frozenset({"queued", "waiting", "due"})
_BEGUN: Final[frozenset[RunState]] = frozenset({"working", "broken_off", "stopped"})
_REQUEST: Final = "run.requested"
_BEGINNINGS: Final = frozenset({"run.started", "flow.started"})
_ENDINGS: Final = frozenset({"run.ended", "flow.ended", "run.suspended"})
_TURNS: Final = tuple(f'"{word}"'.encode() for word in (_REQUEST, *_BEGINNINGS, *_ENDINGS))
_REQUESTED: Final[frozenset[RunState]] = frozenset({"queued", "working", "broken_off"})


def read_summary(store: ConversationStore, identity: str) -> RunSummary:
    """Returns where a run stands. Does file work.

    Args:
        identity: Of its conversation.

    Raises:
        UnknownConversationError: The store has no such conversation.
        StoreError: It has no run, or the store keeps no logs of runs.
        CorruptionError: Its log does not read.
    """
    require_logs(store)
    return require_run(store, identity, summarize_run(store, identity))


def require_run(store: ConversationStore, identity: str, summary: RunSummary | None) -> RunSummary:
    """Returns where a run stands; raises StoreError where there is none."""
    if summary is None:
        store.read_metadata(identity)  # says so if there is no such conversation at all
        raise StoreError(
            detail=f"{identity} is a conversation without a run.",
            remedy="`vibe runs list` lists those with runs.",
        )
    return summary


def survey_states(last: LogEvent) -> frozenset[RunState]:
    """Returns in which states a run may be, by its last event."""
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


def is_asked_again(log: RunLog, possible: frozenset[RunState]) -> bool:
    """Tells whether a run that may be queued is: whether a request came after it has begun.

    Reads no more of lines than that.

    Args:
        possible: In which states it may be, by its last event.
    """
    if possible not in (_RESTED, _SUSPENDED):
        return True
    tail, is_begun, is_open, is_wanted = log.tail(), False, False, False
    while data := tail.read_raw()[0]:
        if not any(word in data for word in _TURNS):
            continue  # as most of a long log
        for line in data.splitlines():
            try:
                word = read_head(line).word
            except UNREADABLE:  # whoever reads it whole says so
                return True
            if word in _BEGINNINGS:
                is_begun, is_open = True, False
            elif word == _REQUEST:
                is_open = is_begun
            elif word in _ENDINGS:
                is_wanted, is_begun, is_open = is_open, False, False
    return is_wanted


def is_over(log: RunLog, last: LogEvent) -> bool:
    """Tells whether a run has ended for certain, without reading all that has happened in it.

    Args:
        last: The last event of the log.
    """
    possible = survey_states(last)
    return possible == _RESTED and not is_asked_again(log, possible)


_LOOKS: Final = 3
"""Number of times a log is read that changes each time before its run counts as dead."""

_Read: TypeAlias = Callable[[ConversationStore, str], tuple[RunSummary | None, tuple[str, ...]]]


def fold_log(store: ConversationStore, identity: str) -> tuple[RunSummary | None, tuple[str, ...]]:
    """Reads the log of a run; returns where that alone says that it stands, and open visits.

    Raises:
        CorruptionError: It does not read.
    """
    fold = RunFold(identity)
    for each in store.open_log(identity).read():
        fold.feed(each)
    return (None if fold.is_empty else fold.summarize()), fold.visits


def summarize_run(
    store: ConversationStore, identity: str, read: _Read = fold_log
) -> RunSummary | None:
    """Returns where a run stands, a flow with its visits; ``None`` where nothing has happened.

    Args:
        read: Reads a log.
    """
    for looks in range(1, _LOOKS + 1):
        found, visits = read(store, identity)
        if found is None:
            return None
        summary = complete_summary(found, store.read_metadata(identity))
        if not summary.starts or _is_alive(store, summary):
            break
        last = store.open_log(identity).read_last()
        if last is None or last.sequence == summary.sequence or looks == _LOOKS:
            summary = _describe_dead(summary)
            break
        # It came to rest, or was taken up, since the log was read.
    return _join_visits(store, summary, visits, read) if visits else summary


def _describe_dead(summary: RunSummary) -> RunSummary:
    """Return the summary of a run that was begun and whose process is gone."""
    state: RunState = summary.state
    if state == "working":  # one that says why it does not work was left by its host in order
        state = "due" if summary.detail else "broken_off"
    return attrs.evolve(summary, state=state, starts=0)


def _is_alive(store: ConversationStore, summary: RunSummary) -> bool:
    """Tell whether a run that was begun and has not come to rest still has a process."""
    log = store.open_log(summary.id)
    if not isinstance(log, ClaimedLog) or log.is_claimed:
        return True
    # A run that is tried again later says why; its host claims it again then.
    return bool(summary.detail) and is_pausing(store, summary.id)


def is_pausing(store: ConversationStore, run_id: str) -> bool:
    """Tell whether a run is to be tried again later, and nothing was said to it since.

    Does file work.

    Raises:
        StoreError: Its log cannot be read.
    """
    last = store.open_log(run_id).read_last()
    if last is None or not isinstance(last.event, RunRetriedEvent):
        return False
    return access_now() < last.timestamp + timedelta(seconds=last.event.seconds)


def complete_summary(summary: RunSummary, metadata: ConversationMetadata) -> RunSummary:
    """Adds what is not in the log of a run, but known of its conversation."""
    return attrs.evolve(
        summary,
        name=metadata.name or summary.name,
        model=summary.model or metadata.model or "",
        origin=metadata.parent.identity if metadata.parent else "",
    )


def _join_visits(
    store: ConversationStore,
    summary: RunSummary,
    identities: Collection[str],
    read: _Read,
) -> RunSummary:
    """Takes over what the visits of a flow wait for: they are asked in their own conversations."""
    visits = []
    for identity in identities:
        with suppress(UnknownConversationError):  # cut off before anything was said
            if visit := summarize_run(store, identity, read):
                visits.append(visit)
    waiting = sum(visit.waiting for visit in visits)
    is_due = not waiting or any(visit.state == "due" for visit in visits)
    state = "due" if summary.state == "waiting" and is_due else summary.state
    return attrs.evolve(summary, state=state, waiting=summary.waiting + waiting)
