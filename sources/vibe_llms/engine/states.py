"""States of a run, and reasons for its end."""

from __future__ import annotations

import enum


class State(enum.StrEnum):
    """State of a run.

    ``GENERATE`` asks the model; ``AWAIT`` waits for approvals; ``EXECUTE`` executes the
    invocations of a turn; ``TERMINATE`` ends the run.
    """

    GENERATE = "generate"
    AWAIT = "await"
    EXECUTE = "execute"
    TERMINATE = "terminate"


class Reason(enum.StrEnum):
    """Reason for the end of a run.

    ``LIMIT``: a limit of the run or of the model was reached; the run can be continued.
    ``REFUSED``: the model, or a filter before it, refused to answer.
    """

    ANSWERED = "answered"
    LIMIT = "limit"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    FAILED = "failed"
