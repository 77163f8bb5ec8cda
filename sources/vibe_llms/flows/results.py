"""What came of a task."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import attrs

from vibe_llms.events.flow import FlowEndedEvent, FlowReason
from vibe_llms.exceptions import ConfigurationError, ConverseError, Finding
from vibe_llms.flows.budgets import Spending, read_spending
from vibe_llms.flows.state import FlowState
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.reprs import represent
from vibe_llms.messages.canisters import Usage


@frozen(kw_only=True)
class GoalVerdict:
    """What became of one condition of the goal.

    Attributes:
        description: The condition, in words.
        evaluation_type: How it was looked at, such as ``CONTAINS``.
        is_met: Whether it holds.
        confidence: In the verdict, from 0 to 1; 0 where it could not be looked at.
        evidence: Why, in a sentence for people that quotes the place.
    """

    description: str
    evaluation_type: str
    is_met: bool
    confidence: float = 1.0
    evidence: str = ""

    @classmethod
    def read(cls, plain: Mapping[str, JsonValue]) -> GoalVerdict:
        """Make a verdict of what the log of a run has of it."""
        confidence = plain.get("confidence")
        return cls(
            description=str(plain.get("description", "")),
            evaluation_type=str(plain.get("evaluation_type", "")),
            is_met=plain.get("is_met") is True,
            confidence=confidence if isinstance(confidence, (int, float)) else 1.0,
            evidence=str(plain.get("evidence", "")),
        )

    def __getitem__(self, name: str) -> JsonValue:
        """Return an attribute by its name. Deprecated: verdicts were mappings once."""
        if name not in (field.name for field in attrs.fields(type(self))):
            raise KeyError(name)
        warnings.warn(
            f"Verdicts are values now: write verdict.{name} instead of verdict[{name!r}].",
            DeprecationWarning,
            stacklevel=2,
        )
        value: JsonValue = getattr(self, name)
        return value


@frozen(kw_only=True)
class AdapterResult:
    """What came of a task.

    Attributes:
        success: Whether the flow came to its end. Whether that met the goal, ``goal_met`` says.
        goal_met: Whether the conditions of the goal are met; ``None`` where it did not end.
        responses: What each node said last, by its id.
        final_response: What was said when the flow ended; empty before.
        verification: What became of each condition of the goal.
        errors: Why it did not come to its end, or what is wrong with the task; a line each.
        warnings: What is odd in the task but harms nobody, and why visits failed from which the
            flow went on.
        reason: Why it came to rest, as a stable word; ``refused`` where it did not begin.
        limit: The name of the limit that was reached, where that is why.
        path: The nodes that were visited, in the order in which the visits ended.
        requests: How many answers models gave.
        usage: What these used; ``None`` where no vendor said.
        cost_cents: What they cost, in US cents; ``None`` where no price is known.
        run_id: What the run is called: by that it is resumed, forked and shown, where a store has
            it; empty where none began.
        error: The first of the errors for programs, where it has a type.
    """

    success: bool
    goal_met: bool | None = None
    responses: Mapping[str, str] = attrs.field(factory=dict)
    final_response: str = ""
    verification: tuple[GoalVerdict, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    reason: FlowReason | str = "ended"
    limit: str = ""
    path: tuple[str, ...] = ()
    requests: int = 0
    usage: Usage | None = None
    cost_cents: float | None = None
    run_id: str = ""
    error: ConverseError | None = None

    def __repr__(self) -> str:
        outcome: tuple[str, object] = ("reason", self.reason)
        said: object = self.errors[0] if len(self.errors) == 1 else self.errors
        if self.success:
            outcome, said = ("success", True), self.final_response
        label = "final_response" if self.success else "errors"
        return represent("AdapterResult", (outcome, (label, said)))


def refuse(
    findings: Sequence[Finding] = (),
    warnings: Sequence[Finding] = (),
    error: ConverseError | None = None,
) -> AdapterResult:
    """Says why a task was not begun."""
    if error is None:
        error = ConfigurationError(findings=tuple(findings))
    return AdapterResult(
        success=False,
        errors=tuple(map(str, findings)) or (str(error),),
        warnings=tuple(map(str, warnings)),
        reason="refused",
        error=error,
    )


def produce_result(
    run_id: str,
    state: FlowState,
    warnings: Sequence[Finding] = (),
    failure: ConverseError | None = None,
) -> AdapterResult:
    """Says what came of a run, from where it stands.

    Args:
        failure: What could not be written down at the end.
    """
    ending = state.ending or FlowEndedEvent(
        run_id=run_id,
        reason="cancelled" if failure is None else "failed",
        detail="" if failure is None else str(failure),
        error=failure,
    )
    is_ended = ending.reason == "ended"
    told = [*map(str, warnings), *state.failures]
    if is_ended and failure is not None:
        told.append(f"The result was not stored: {failure}")
    place = f"{ending.node}: " if ending.node else ""
    spent = Spending(requests=state.requests, usage=state.usage, cost_cents=state.cost_cents)
    spent += read_spending(ending)
    return AdapterResult(
        success=is_ended,
        goal_met=ending.goal_met,
        responses=dict(state.responses),
        final_response=state.final or "",
        verification=tuple(map(GoalVerdict.read, ending.verdicts)),
        errors=() if is_ended else (f"{place}{ending.detail or 'It was cancelled.'}",),
        warnings=tuple(told),
        reason=ending.reason,
        limit=ending.limit,
        path=tuple(state.path),
        run_id=run_id,
        error=ending.error,
        **attrs.asdict(spent, recurse=False),
    )
