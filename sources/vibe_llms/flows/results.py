"""Results of tasks."""

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
    """Verdict on one condition of the goal.

    Attributes:
        description: The condition, in words.
        evaluation_type: How it was evaluated, such as ``CONTAINS``.
        is_met: Whether it holds.
        confidence: Confidence in the verdict, from 0 to 1; 0 if the condition could not be
            evaluated.
        evidence: Why, in a sentence for people that quotes the place.
    """

    description: str
    evaluation_type: str
    is_met: bool
    confidence: float = 1.0
    evidence: str = ""

    @classmethod
    def read(cls, data: Mapping[str, JsonValue]) -> GoalVerdict:
        """Make a verdict from its record in the log of a run."""
        confidence = data.get("confidence")
        return cls(
            description=str(data.get("description", "")),
            evaluation_type=str(data.get("evaluation_type", "")),
            is_met=data.get("is_met") is True,
            confidence=confidence if isinstance(confidence, (int, float)) else 1.0,
            evidence=str(data.get("evidence", "")),
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
    """Result of a task.

    Attributes:
        success: Whether the flow ended. ``goal_met`` says whether it met the goal.
        goal_met: Whether the conditions of the goal are met; ``None`` if the flow did not end.
        responses: Last response of each node, by its id.
        final_response: Last response when the flow ended; empty if it did not.
        verification: Verdict on each condition of the goal.
        errors: Why the flow did not end, or the mistakes in the task; a line each.
        warnings: Harmless findings about the task, and reasons of failed visits after which the
            flow continued.
        reason: Why the run stopped, as a stable word; ``refused`` if it did not start.
        limit: Name of the limit that was reached, if that is the reason.
        path: Visited nodes, in the order in which the visits ended.
        requests: Number of model responses.
        usage: Usage of the responses; ``None`` if no vendor reported it.
        cost_cents: Cost of the responses, in US cents; ``None`` if no price is known.
        run_id: Id of the run, with which a stored run is resumed, forked and shown; empty if no run
            started.
        error: First of the errors as an exception, for programs, if it has a type.
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
        value: object = self.errors[0] if len(self.errors) == 1 else self.errors
        if self.success:
            outcome, value = ("success", True), self.final_response
        label = "final_response" if self.success else "errors"
        return represent("AdapterResult", (outcome, (label, value)))


def refuse(
    findings: Sequence[Finding] = (),
    warnings: Sequence[Finding] = (),
    error: ConverseError | None = None,
) -> AdapterResult:
    """Return the result of a task that was not started."""
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
    """Return the result of a run from its state.

    Args:
        failure: Error that prevented the end from being recorded.
    """
    ending = state.ending or FlowEndedEvent(
        run_id=run_id,
        reason="cancelled" if failure is None else "failed",
        detail="" if failure is None else str(failure),
        error=failure,
    )
    is_ended = ending.reason == "ended"
    notices = [*map(str, warnings), *state.failures]
    if is_ended and failure is not None:
        notices.append(f"The result was not stored: {failure}")
    place = f"{ending.node}: " if ending.node else ""
    spending = Spending(requests=state.requests, usage=state.usage, cost_cents=state.cost_cents)
    spending += read_spending(ending)
    return AdapterResult(
        success=is_ended,
        goal_met=ending.goal_met,
        responses=dict(state.responses),
        final_response=state.final or "",
        verification=tuple(map(GoalVerdict.read, ending.verdicts)),
        errors=() if is_ended else (f"{place}{ending.detail or 'It was cancelled.'}",),
        warnings=tuple(notices),
        reason=ending.reason,
        limit=ending.limit,
        path=tuple(state.path),
        run_id=run_id,
        error=ending.error,
        **attrs.asdict(spending, recurse=False),
    )
