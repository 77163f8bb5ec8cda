"""Summary of a run, derived from the events of its log only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, Literal, TypeAlias

import attrs

from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.engine.limits import Readings
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    GenerationAnsweredEvent,
    GenerationDeferredEvent,
    GenerationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowStartedEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
)
from vibe_llms.events.runs import (
    MessageReceivedEvent,
    RunContinuedEvent,
    RunDetachedEvent,
    RunRequestedEvent,
    RunResumedEvent,
    RunRetriedEvent,
    StopRequestedEvent,
)
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.runs.delivering import OpenRequests

RunKind: TypeAlias = Literal["conversation", "flow"]
_DEFERRED: Final = "It waits for a vendor's batch."

_GOOD_REASONS: Final = frozenset({"", "answered", "continued", "ended"})
"""Reasons of runs that have ended well."""

_STARTS: Final = (RunStartedEvent, FlowStartedEvent)
"""Starts; after a crash, the run did not work in the time before its next start."""

RunState: TypeAlias = Literal[
    "queued", "working", "waiting", "due", "broken_off", "stopped", "ended"
]


@frozen(kw_only=True, slots=False)
class RunSummary:
    """Summary of a run.

    Attributes:
        id: Id of its conversation.
        kind: Whether it is a conversation or a flow.
        state: ``queued``: not started yet; ``working``: started and not at rest; ``waiting``: for
            approvals or a vendor's batch; ``due``: it received a message since it came to rest;
            ``broken_off``: started, and its process is gone; ``stopped``: by a user; ``ended``.
        reason: Reason for its end, as a stable word; empty if it has not ended.
        detail: The reason as a sentence, why it was stopped, or what it cannot reach; may be
            empty.
        limit: Name of the limit at which it ended, if any.
        goal_met: Whether a flow that has ended met its goal; ``None`` if that was not checked.
        model: Address of the model; empty if none was named.
        subject: User on whose behalf it was requested; empty if none was named.
        name: Display name; may be empty.
        created: Time of its first event.
        updated: Time of its last event.
        sequence: Number of its last event.
        answers: Answers of models since its last request; visits of a flow count when they are
            over.
        invocations: Invocations started since its last request, without those of a flow's visits.
        visits: Visits of nodes that a flow has started, over its whole life.
        tokens: Input and output tokens since its last request, as far as vendors reported them.
        cents: Cost since its last request in US cents; ``None`` while no price is known.
        seconds: Time that it has worked since its last request, without waits for approvals.
        waiting: Number of calls that wait for an approval.
        starts: Number of starts since it last came to rest.
        is_attached: Whether it ends when its last watcher leaves.
        spec: The request as plain data; empty if it was started in process.
        origin: Id of the conversation that a fork was made from; otherwise empty.
        tags: Tags of its conversation that the user has set.
        first_words: Beginning of the user's first message, which titles a run without a name.
            Only in lists.
        continued_in: Id of the compacted fork in which the run continues; otherwise empty.
        label: State for people: ``goal not met``, ``waiting for 2 approvals``. The same words are
            used everywhere; they follow from the other attributes.
        tone: State for icons and colors: the state, or ``failed`` for a run that ended badly.
        steps: The old name of ``answers``, for one release.
    """

    id: str
    kind: RunKind = "conversation"
    state: RunState = "queued"
    reason: str = ""
    detail: str = ""
    limit: str = ""
    goal_met: bool | None = None
    model: str = ""
    subject: str = ""
    name: str = ""
    created: datetime
    updated: datetime
    sequence: int
    answers: int = 0
    visits: int = 0
    invocations: int = 0
    tokens: int = 0
    cents: float | None = None
    seconds: float = 0.0
    waiting: int = 0
    starts: int = 0
    is_attached: bool = False
    spec: Mapping[str, JsonValue] = attrs.field(factory=dict)
    origin: str = ""
    tags: tuple[str, ...] = ()
    first_words: str = ""
    continued_in: str = ""
    label: str = ""
    tone: str = ""
    steps: int = 0

    def __attrs_post_init__(self) -> None:
        # Also if other values were given, or an older daemon does not send them.
        answers = self.answers or self.steps
        object.__setattr__(self, "answers", answers)
        object.__setattr__(self, "steps", answers)
        object.__setattr__(self, "label", _label(self))
        object.__setattr__(self, "tone", "failed" if _has_failed(self) else self.state)

    @property
    def title(self) -> str:
        """Name, or the first words of a run without one; may be empty."""
        return self.name or self.first_words


def describe_ending(reason: str, limit: str = "", goal_met: bool | None = None) -> str:
    """Return the reason why a run has ended, in a few words."""
    if reason == "ended" and goal_met is not None:
        return "goal met" if goal_met else "goal not met"
    return f"limit reached: {limit}" if limit else reason or "ended"


def _label(summary: RunSummary) -> str:
    match summary.state:
        case "ended":
            return describe_ending(summary.reason, summary.limit, summary.goal_met)
        case "waiting" if summary.waiting:
            noun = "approval" if summary.waiting == 1 else "approvals"
            return f"waiting for {summary.waiting} {noun}"
        case "queued" if queue := summary.spec.get("queue"):  # workers may not know the queue
            return f"queued in {queue}"
    return summary.state.replace("_", " ")


def _has_failed(summary: RunSummary) -> bool:
    is_well = (
        summary.reason in _GOOD_REASONS and summary.goal_met is not False and not summary.limit
    )
    return summary.state == "ended" and not is_well


@define(eq=False)
class RunFold:
    """Fold of a log's events, fed oldest first, which can summarize the run at any time.

    Attributes:
        id: Id of the conversation.
        requests: Requests for approval that are open in it; those of a flow are in its visits.
    """

    id: str
    requests: OpenRequests = attrs.field(factory=OpenRequests)
    _kind: RunKind = "conversation"
    _state: RunState = "queued"
    _ending: tuple[str, str, str] = ("", "", "")
    _model: str = ""
    _name: str = ""
    _request: RunRequestedEvent | None = None
    _is_attached: bool = False
    _is_requested_again: bool = False  # while it worked
    _is_resumed: bool = False  # while it worked, by a user who revoked a stop
    _is_deferred: bool = False  # waits for a vendor's batch
    _stop: LoggedEvent | None = None
    _continued_in: str = ""
    _starts: int = 0
    _spending: Readings = attrs.field(factory=Readings)
    _unsettled: FlowEndedEvent | None = None
    _visits: dict[int, dict[str, str]] = attrs.field(factory=dict)
    _goal_met: bool | None = None
    _open_visit_keys: set[tuple[str, int, int]] = attrs.field(factory=set)
    _visit_count: int = 0
    _first: LoggedEvent | None = None
    _last: LoggedEvent | None = None

    @property
    def visits(self) -> tuple[str, ...]:
        """Conversations of a flow's visits that have started and are not over."""
        return tuple(identity for each in self._visits.values() for identity in each.values())

    @property
    def is_empty(self) -> bool:
        """True if there are no events, so that there is no run."""
        return self._last is None

    def feed(self, logged: LoggedEvent) -> None:
        """Take the next event into account."""
        event = logged.event
        if self._starts and self._last and not isinstance(event, _STARTS):
            passed = (logged.timestamp - self._last.timestamp).total_seconds()
            self._spending.seconds += max(0.0, passed)  # a clock may be set back
        self._first, self._last = self._first or logged, logged
        self.requests.note(event)
        self._count(logged)
        match event:
            case RunRequestedEvent():
                self._note_request(event)
            case RunStartedEvent() | FlowStartedEvent():
                self._note_start(logged, event)
            case GenerationDeferredEvent():
                self._is_deferred = True
            case RunSuspendedEvent():
                self._rest("waiting", ("", _DEFERRED if self._is_deferred else "", ""))
                self._is_deferred = False
            case RunEndedEvent() | FlowEndedEvent():
                self._note_end(event)
            case StopRequestedEvent():
                self._note_stop(logged, event)
            case ApprovalAnsweredEvent() | GenerationAnsweredEvent() if self._state == "waiting":
                self._state, self._ending = "due", ("", "", "")
            case MessageReceivedEvent() if not self._starts and self._state != "waiting":
                self._continue()
            case RunResumedEvent():
                self._is_resumed = True
                self._continue()
            case RunRetriedEvent() if self._stop is None:
                self._continue()
                self._ending = ("", event.detail, "")
            case RunDetachedEvent():
                self._is_attached = False
            case RunContinuedEvent() if event.continues == self.id:
                self._continued_in = event.conversation

    def summarize(self) -> RunSummary:
        """Return the summary of the run.

        Raises:
            ValueError: There were no events, so there is no run.
        """
        if self._first is None or self._last is None:
            raise ValueError("A run needs at least one event.")
        spending = attrs.evolve(self._spending)
        if (last := self._unsettled) is not None:
            spending.steps += last.requests
            spending.count(last.usage, last.cost_cents)
        reason, detail, limit = self._ending
        request = self._request
        return RunSummary(
            id=self.id,
            kind=self._kind,
            state=self._state,
            reason=reason,
            detail=detail,
            limit=limit,
            goal_met=self._goal_met if self._state == "ended" else None,
            model=self._model,
            subject=request.subject if request else "",
            name=self._name,
            created=self._first.timestamp,
            updated=self._last.timestamp,
            sequence=self._last.sequence,
            answers=spending.steps,
            visits=self._visit_count,
            invocations=spending.invocations,
            tokens=spending.tokens,
            cents=spending.cents,
            seconds=round(spending.seconds, 6),  # as exact as the moments of events
            waiting=len(self.requests.survey()),
            starts=self._starts,
            is_attached=self._is_attached,
            spec=request.spec if request else {},
            continued_in=self._continued_in if self._state == "ended" else "",
        )

    # --- state of the run ----------------------------------------------------------------------

    def _note_request(self, event: RunRequestedEvent) -> None:
        spec = event.spec
        self._request = event
        self._continued_in = ""
        self._is_attached = bool(spec.get("attached"))
        self._model = str(spec.get("model") or self._model)
        self._name = str(spec.get("name") or self._name)
        if spec.get("task") is not None or spec.get("kind") == "flow":
            self._kind = "flow"
        self._is_requested_again = bool(self._starts)
        self._continue("queued")

    def _continue(self, state: RunState = "due") -> None:
        """Record a request to continue: an active process continues; otherwise one has to start."""
        self._stop = None
        if self._starts:
            self._state = "working"
        elif self._state != "queued":
            self._state = state
        self._ending = ("", "", "")

    def _note_start(self, logged: LoggedEvent, event: RunStartedEvent | FlowStartedEvent) -> None:
        # A stop is received by the run that moved it from the inbox, which is before it starts.
        if self._stop is not None and self._stop.run_id != logged.run_id:
            self._stop = None
        self._starts += 1
        self._continued_in = ""
        self._is_requested_again = self._is_resumed = False
        self._unsettled = None  # the flow counts it anew
        self._ending = ("", "", "")
        self._state = "working"
        if isinstance(event, FlowStartedEvent):
            self._kind = "flow"
            self._model = str(event.settings.get("model") or _find_model(event) or self._model)
            goal = event.task.get("goal")
            if not self._name and isinstance(goal, Mapping):
                self._name = str(goal.get("description") or "")
            return
        self._model = event.model or self._model
        if self._stop is not None:
            self._state = "stopped"

    def _rest(self, state: RunState, ending: tuple[str, str, str] = ("", "", "")) -> None:
        self._starts = 0
        self._state, self._ending = (
            ("queued", ("", "", "")) if self._is_requested_again else (state, ending)
        )
        self._is_requested_again = self._is_resumed = False
        if state != "stopped":
            self._stop = None
        elif self._stop is not None:  # it was received, but not by a run that starts later
            self._stop = attrs.evolve(self._stop, run_id="")

    def _note_end(self, event: RunEndedEvent | FlowEndedEvent) -> None:
        self._goal_met = None
        if isinstance(event, FlowEndedEvent):
            self._unsettled, self._goal_met = event, event.goal_met
        ending = (event.reason, event.detail, event.limit)
        if event.reason == "waiting":
            self._rest("waiting")
        elif event.reason != "cancelled":
            self._rest("ended", ending)
        elif self._stop is not None:
            self._rest("stopped", ("", event.detail or self._ending[1], ""))
        elif self._request is not None or self._is_resumed:
            self._rest("due")
        else:
            self._rest("ended", ending)

    def _note_stop(self, logged: LoggedEvent, event: StopRequestedEvent) -> None:
        if self._state == "ended" and self._ending[0] != "cancelled":
            return
        self._stop, self._state = logged, "stopped"
        self._is_requested_again = self._is_resumed = False
        self._ending = ("", event.reason, "")

    # --- usage ---------------------------------------------------------------------------------

    def _count(self, logged: LoggedEvent) -> None:
        spending = self._spending
        match logged.event:
            case RunRequestedEvent() | RunResumedEvent():
                self._spending, self._unsettled = Readings(), None
            case GenerationFinishedEvent() as event:
                spending.steps += 1
                spending.count(event.usage, event.cents)
            case InvocationStartedEvent():
                spending.invocations += 1
            case RunContinuedEvent() as event if event.conversation == self.id:
                spending.count(event.usage, event.cents)
            case NodeStartedEvent() as event:
                self._note_visit(event)
                self._visits.setdefault(event.branch, {})[event.purpose] = event.conversation_id
            case NodeFinishedEvent() as event:
                self._open_visit_keys.discard(self._note_visit(event))
                self._visits.pop(event.branch, None)
                spending.steps += event.requests
                spending.count(event.usage, event.cost_cents)

    def _note_visit(self, event: NodeStartedEvent | NodeFinishedEvent) -> tuple[str, int, int]:
        """Count a visit at its first event, which is its end if it has no start event."""
        key = (event.node, event.visit, event.branch)
        if key not in self._open_visit_keys:
            self._open_visit_keys.add(key)
            self._visit_count += 1
        return key


def _find_model(event: FlowStartedEvent) -> str:
    """Return the model that a task names."""
    resource = event.task.get("resource_llm")
    if not isinstance(resource, Mapping):
        return ""
    parts = (str(resource.get(each) or "") for each in ("provider", "model"))
    return ":".join(part for part in parts if part)


def summarize(events: Iterable[LoggedEvent], identity: str = "") -> RunSummary:
    """Return the summary of a run from the events of its log, oldest first.

    Raises:
        ValueError: There are no events.
    """
    fold = RunFold(identity)
    for each in events:
        fold.feed(each)
    return fold.summarize()
