"""Log of ``debug_mode``: a line for each event in a run of a flow."""

from __future__ import annotations

import logging

from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowEvent,
    FlowStartedEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
)
from vibe_llms.flows.graphs import Flow
from vibe_llms.foundation.reprs import shorten_value

_logger = logging.getLogger("vibe_llms.flows")


def enable_logging() -> None:
    """Make the log visible: on standard error, unless the program has configured logging."""
    if not _logger.isEnabledFor(logging.DEBUG):
        _logger.setLevel(logging.DEBUG)
    if not _logger.hasHandlers():  # otherwise a script would not show the log
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
        _logger.addHandler(handler)


def log_event(event: FlowEvent, flow: Flow) -> None:
    """Log an event; responses are truncated."""
    match event:
        case FlowStartedEvent():
            _logger.debug("run %s begins", event.run_id)
        case NodeStartedEvent():
            what = f" ({event.purpose})" if event.purpose else ""
            _logger.debug("%s starts, visit %d%s", event.node, event.visit, what)
        case NodeFinishedEvent():
            targets = ", ".join(flow.edges[index].target for index in event.edges)
            response = f": {shorten_value(event.response)}" if event.response else ""
            category = f" [{event.category}: {event.evidence}]" if event.category else ""
            failure = f" {event.detail}" if event.detail else ""
            _logger.debug(
                "%s → %s%s%s%s", event.node, targets or "done", category, failure, response
            )
        case FlowEndedEvent():
            _logger.debug("run %s: %s %s", event.run_id, event.reason, event.detail)
