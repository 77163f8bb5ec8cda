"""Steps of a run on the time axis: model calls, tool calls, approvals, messages and visits.

The steps within a visit of a flow are in the log of the visit's own conversation, which the visit
names.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import attrs

from vibe_llms.foundation.attrs_classes import frozen

StepKind: TypeAlias = Literal["model", "tool", "approval", "message", "stop", "visit"]
StepState: TypeAlias = Literal["working", "waiting", "done", "failed", "denied", "broken_off"]


@frozen(kw_only=True)
class RunStep:
    """One step of a run.

    Attributes:
        number: Number of its first event in the log, which names it.
        sequence: Number of its last event.
        kind: Its kind.
        name: Address of the model, name of the tool, or id of the node.
        state: ``broken_off``: its process is gone, or its run ended before it.
        started: Time of its first event.
        seconds: Duration; ``None`` while it is open.
        tokens: Input and output tokens.
        cents: Cost in US cents; ``None`` while no price is known.
        detail: Error, answer to an approval, or choice of a visit; may be empty.
        message: Id of its message in the conversation: for a model call, of the last message that
            was sent. Empty for a visit.
        visit: Number of the visit of its node, from 1; otherwise 0.
        branch: Branch of the visit, from 0.
        conversations: Ids of the conversations of a visit; their runs have the steps within it.
    """

    number: int
    sequence: int
    kind: StepKind
    name: str
    started: datetime
    state: StepState = "working"
    seconds: float | None = None
    tokens: int = 0
    cents: float | None = None
    detail: str = ""
    message: str = ""
    visit: int = 0
    branch: int = 0
    conversations: tuple[str, ...] = ()


@frozen(kw_only=True)
class StepPage:
    """Steps of a run that have changed.

    Attributes:
        data: The steps in the order of their last events. Open steps are on each page.
        sequence: Number of the event up to which these steps are complete; pass it to read the
            later changes.
        has_more: Whether there are more steps up to now.
        now: Time of the answer, by the clock of the daemon.
    """

    data: tuple[RunStep, ...]
    sequence: int
    has_more: bool
    now: datetime


def end_broken_off(step: RunStep, last: datetime) -> RunStep:
    """Return a step whose process is gone.

    Args:
        last: Time of the last event of its run.
    """
    passed = max(0.0, (last - step.started).total_seconds())
    return attrs.evolve(step, state="broken_off", seconds=passed)
