"""Outcome of a failed execution: the run ends, or is retried later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from vibe_llms.conversations.run_logs.log import ENDS, LoggedEvent, claim_soon
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.flow import FlowEndedEvent, LogEvent
from vibe_llms.events.runs import RunRetriedEvent
from vibe_llms.exceptions import (
    ConverseError,
    EnsembleError,
    StoreUnavailableError,
    StreamTruncatedError,
    TransportError,
)

TEMPORARY_ERRORS: Final[tuple[type[ConverseError], ...]] = (
    EnsembleError,
    StoreUnavailableError,
    StreamTruncatedError,
    TransportError,
)
"""Temporary failures: a gateway, a database or a tool server is unreachable."""


def write_outcome(
    store: ConversationStore,
    run_id: str,
    known: Sequence[LoggedEvent],
    choose: Callable[[Sequence[LoggedEvent]], LogEvent],
) -> LogEvent | None:
    """Append the outcome of a run to its log and wait for the disk, unless the run is over.

    The log is claimed first, so that no other worker can end the run between the check and the
    write. Does file work.

    Args:
        known: The events when the execution started.
        choose: Chooses the outcome by all events of the log.

    Returns:
        The event written; ``None`` if the run is over.

    Raises:
        StoreError: Another process keeps the log claimed, or it cannot be written.
    """
    log = store.open_log(run_id)
    claim_soon(log)  # processes that deliver messages have it for a moment
    try:
        since = log.read(after=known[-1].sequence if known else 0)
        outcome = choose([*known, *since])
        if _is_over(since, outcome):
            return None
        log.append(run_id, outcome)
        log.synchronize()
        return outcome
    finally:
        log.close()


def _is_over(since: Sequence[LoggedEvent], outcome: LogEvent) -> bool:
    ends = [each.event for each in since if isinstance(each.event, ENDS)]
    if not ends:
        return False
    # A flow records its end also when it can be retried; only a retry may follow that.
    end = ends[-1]
    is_temporary = isinstance(end, FlowEndedEvent) and isinstance(end.error, TEMPORARY_ERRORS)
    return not (is_temporary and isinstance(outcome, RunRetriedEvent))
