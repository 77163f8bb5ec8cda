"""State of a simulator and the requests that it received."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.testing.simulator.faults import Conditions
from vibe_llms.testing.simulator.protocols import produce_minting
from vibe_llms.testing.simulator.scripts import ScriptedAnswer


@define(kw_only=True)
class ReceivedRequest:
    """A received request.

    Attributes:
        method: The HTTP method.
        path: The path with the part that sets conditions, without the query.
        query: The parameters of the query.
        headers: The headers, with names in lower case.
        data: The original body.
        body: The body as plain data; None if it is not JSON.
        disconnected_at: The time at which the client disconnected before the answer was complete,
            by the monotonic clock; None otherwise.
        answered: True if the answer was sent to its end.
        target: The path and the query as they were sent, with all escapes.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    data: bytes = attrs.field(repr=False)
    body: Any = attrs.field(default=None, repr=False)
    disconnected_at: float | None = None
    answered: bool = False
    target: str = ""


@define(kw_only=True)
class SimulatorState:
    """State of one simulator between requests.

    Attributes:
        conditions: The faults and quirks of each request.
        context_tokens: Maximum length of a prompt.
        turns: The scripted answers to the next requests.
        refusal_counts: How many requests a fault has refused, by its name and scope.
        mint: Creates a new id from a prefix and a length.
        stored: Responses, files and batches that the vendors store, by their ids.
        redirect_counts: How many requests were redirected, by their scope.
        passed_seconds: Seconds by which the vendors' clocks are ahead.
    """

    conditions: Conditions
    context_tokens: int
    turns: deque[ScriptedAnswer] = attrs.field(factory=deque)
    refusal_counts: dict[str, int] = attrs.field(factory=dict)
    mint: Any = attrs.field(factory=produce_minting)
    stored: dict[str, Any] = attrs.field(factory=dict)
    redirect_counts: dict[str, int] = attrs.field(factory=dict)
    passed_seconds: int = 0
