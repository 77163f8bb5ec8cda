"""Events of a flow's run, which goes from node to node until it ends.

The log of a flow's run has these events in order. The state of a run is computed from them alone,
so that it can be resumed, forked at a node, or inspected afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from vibe_llms.events.engine import EngineEvent
from vibe_llms.events.runs import OutsideEvent
from vibe_llms.events.stream import StreamEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import Usage

FlowReason: TypeAlias = Literal["ended", "limit", "waiting", "cancelled", "failed"]


@frozen(kw_only=True, slots=False)
class FlowStartedEvent:
    """A flow starts or resumes.

    Attributes:
        run_id: Id of the run.
        task: The task as written: resuming requires no file.
        place: The file that it was read from; empty without one.
        variables: The caller's values for ``{{name}}``.
        settings: Limits of the run, by the names of ``AdapterConfig``.
    """

    type: Literal["flow.started"] = attrs.field(default="flow.started", init=False)
    run_id: str
    task: Mapping[str, JsonValue] = attrs.field(factory=dict)
    place: str = ""
    variables: Mapping[str, JsonValue] = attrs.field(factory=dict)
    settings: Mapping[str, JsonValue] = attrs.field(factory=dict)


@frozen(kw_only=True, slots=False)
class NodeStartedEvent:
    """A visit of a node is about to cost something: written before anything is sent.

    Attributes:
        node: The id of the node.
        visit: The number of the visit of this node, from 1.
        branch: The branch, from 0; a flow that never splits has one.
        conversation_id: The conversation of the visit; a resumed visit continues it.
        purpose: The purpose of a request besides the node's own prompt, such as ``category``: a
            visit may have several such conversations.
    """

    type: Literal["node.started"] = attrs.field(default="node.started", init=False)
    node: str
    visit: int
    branch: int = 0
    conversation_id: str = ""
    purpose: str = ""


@frozen(kw_only=True, slots=False)
class NodeFinishedEvent:
    """A visit of a node has ended, and the flow continues along these edges.

    Attributes:
        node: The id of the node.
        visit: The number of the visit of this node, from 1.
        branch: The branch.
        edges: The indices of the edges that are taken; empty if the flow ends here.
        response: The response of the visit; ``None`` if the earlier one still applies.
        category: The category of the response, if an edge was chosen by it.
        confidence: Confidence in the category, from 0 to 1.
        evidence: Why it was chosen, in a sentence.
        detail: Why the visit failed, or the limit that it reached; otherwise empty.
        requests: Number of models' answers for it.
        usage: Their usage; ``None`` if no vendor reported it.
        cost_cents: Their cost, in US cents; ``None`` if no price is known.
    """

    type: Literal["node.finished"] = attrs.field(default="node.finished", init=False)
    node: str
    visit: int
    branch: int = 0
    edges: tuple[int, ...] = ()
    response: str | None = None
    category: str = ""
    confidence: float = 1.0
    evidence: str = ""
    detail: str = ""
    requests: int = 0
    usage: Usage | None = None
    cost_cents: float | None = None


@frozen(kw_only=True, slots=False)
class FlowEndedEvent:
    """A flow has ended or suspended.

    Attributes:
        run_id: Id of the run.
        reason: Why, as a stable word.
        detail: The reason in a sentence; may be empty.
        limit: The name of the limit that was reached, if any.
        node: The id of the node where it stopped, if it did not reach an end.
        error: The error, if it failed.
        goal_met: Whether the goal was met; ``None`` if that was not checked.
        verdicts: The result of each condition of the goal, as plain data.
        requests: Number of models' answers that do not belong to a finished visit: about the goal,
            and in an interrupted visit. A resumed run counts those again.
        usage: Their usage; ``None`` if no vendor reported it.
        cost_cents: Their cost, in US cents; ``None`` if no price is known.
    """

    type: Literal["flow.ended"] = attrs.field(default="flow.ended", init=False)
    run_id: str
    reason: FlowReason
    detail: str = ""
    limit: str = ""
    node: str = ""
    error: ConverseError | None = None
    goal_met: bool | None = None
    verdicts: tuple[Mapping[str, JsonValue], ...] = ()
    requests: int = 0
    usage: Usage | None = None
    cost_cents: float | None = None


@frozen(kw_only=True)
class VisitEvent:
    """An event within a visit: for watchers of a flow; stored elsewhere.

    Attributes:
        node: The id of the node.
        visit: The number of the visit of this node, from 1.
        branch: The branch.
        event: The event, of an engine's run or of a model's answer.
    """

    node: str
    visit: int
    branch: int
    event: EngineEvent | StreamEvent | FlowEvent | OutsideEvent


FlowEvent: TypeAlias = FlowStartedEvent | NodeStartedEvent | NodeFinishedEvent | FlowEndedEvent
LogEvent: TypeAlias = EngineEvent | FlowEvent | OutsideEvent
"""Events in the log of a conversation's runs."""
