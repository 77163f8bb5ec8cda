"""The words for where a run is, and for why it ended."""

from __future__ import annotations

import enum


class State(enum.StrEnum):
    """What a run does next.

    ``GENERATE`` asks the model; ``AWAIT`` waits for approvals; ``EXECUTE`` executes the
    invocations of a turn; ``TERMINATE`` does nothing more.
    """

    GENERATE = "generate"
    AWAIT = "await"
    EXECUTE = "execute"
    TERMINATE = "terminate"


class Reason(enum.StrEnum):
    """Why a run ended.

    ``LIMIT``: one of its limits, or one of the model's, was reached; it can be continued.
    ``REFUSED``: the model, or a filter before it, would not answer.
    """

    ANSWERED = "answered"
    LIMIT = "limit"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    FAILED = "failed"
