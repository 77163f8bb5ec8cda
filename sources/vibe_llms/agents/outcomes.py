"""What became of a run that raised: it is over, or is tried again, when its time has come."""

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

PASSING: Final[tuple[type[ConverseError], ...]] = (
    EnsembleError,
    StoreUnavailableError,
    StreamTruncatedError,
    TransportError,
)
"""Faults of the surroundings: a gateway, a database or a server of tools that is not there now."""


def write_outcome(
    store: ConversationStore,
    run_id: str,
    known: Sequence[LoggedEvent],
    choose: Callable[[Sequence[LoggedEvent]], LogEvent],
) -> LogEvent | None:
    """Adds to a log what became of its run, and waits for the disk, unless the run is over by then.

    Whether it is, is looked for with the log claimed, so that nobody ends the run between that look
    and what is written: not itself, nor another host that went on with it while this one was cut
    off. Does file work.

    Args:
        known: What was in the log when whoever performed it began.
        choose: Says what became of it, by all that is in the log.

    Returns:
        What was written; ``None`` where it is over.

    Raises:
        StoreError: Somebody has the log and keeps it, or it cannot be written.
    """
    log = store.open_log(run_id)
    claim_soon(log)  # whoever says something to the run has it for a moment
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
    # A flow says that it has ended, too, where it can be tried again; nothing else goes behind it.
    is_passing = isinstance(ends[-1], FlowEndedEvent) and isinstance(ends[-1].error, PASSING)
    return not (is_passing and isinstance(outcome, RunRetriedEvent))
