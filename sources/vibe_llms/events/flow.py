"""What happens in the run of a flow: it goes from node to node until it ends.

The log of a flow's run holds these events in their order; where a run stands is what they add up
to, so that it can be taken up again, forked at a node, or looked at afterwards, from them alone.
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
    """A flow begins, or is taken up again.

    Attributes:
        run_id: Of the run.
        task: The task as it was written: what is taken up again needs no file.
        place: The file that it was read from; empty where it was none.
        variables: What the caller gave for ``{{name}}``.
        settings: What bounds the run, by the names of ``AdapterConfig``.
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
        visit: How often it was visited, this time included.
        branch: Which branch came here, from 0; a flow that never splits has one.
        conversation_id: Where the visit keeps what is said; a visit that is taken up goes on there.
        purpose: What is asked there beside the node's own words, such as ``category``: a visit
            may have several such conversations.
    """

    type: Literal["node.started"] = attrs.field(default="node.started", init=False)
    node: str
    visit: int
    branch: int = 0
    conversation_id: str = ""
    purpose: str = ""


@frozen(kw_only=True, slots=False)
class NodeFinishedEvent:
    """A visit of a node is over, and the flow goes on along these edges.

    Attributes:
        node: The id of the node.
        visit: How often it was visited, this time included.
        branch: Which branch was here.
        edges: The places of the edges that are taken; none where the flow ends here.
        response: What the visit brought; ``None`` where what was said before still holds.
        category: What the response was found to be, where an edge was chosen by that.
        confidence: In that choice, from 0 to 1.
        evidence: Why it was chosen, in a sentence.
        detail: Of what the visit failed, or which limit it reached; empty where neither.
        requests: How many answers models gave for it.
        usage: What these used; ``None`` where no vendor said.
        cost_cents: What they cost, in US cents; ``None`` where no price is known.
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
    """A flow has come to rest.

    Attributes:
        run_id: Of the run.
        reason: Why, as a stable word.
        detail: The same in a sentence; may be empty.
        limit: The name of the limit that was reached, where one was.
        node: The id of the node where it stopped, where it did not come to an end.
        error: What it failed of, where it failed.
        goal_met: Whether the goal was met; ``None`` where that was not looked at.
        verdicts: What became of each condition of the goal, as plain data.
        requests: How many answers models gave that belong to no finished visit: about the goal,
            and to a visit that was cut off. Who takes the run up counts those anew.
        usage: What these used; ``None`` where no vendor said.
        cost_cents: What they cost, in US cents; ``None`` where no price is known.
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
    """Something happens within a visit: told to whoever follows a flow, and kept elsewhere.

    Attributes:
        node: The id of the node.
        visit: How often it was visited, this time included.
        branch: Which branch is there.
        event: What happens, in the run of an engine or the answer of a model.
    """

    node: str
    visit: int
    branch: int
    event: EngineEvent | StreamEvent | FlowEvent | OutsideEvent


FlowEvent: TypeAlias = FlowStartedEvent | NodeStartedEvent | NodeFinishedEvent | FlowEndedEvent
LogEvent: TypeAlias = EngineEvent | FlowEvent | OutsideEvent
"""What the log of a conversation's runs holds."""
