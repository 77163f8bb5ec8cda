"""Outline of a flow's run, for clients that draw it themselves: the diagram and the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue


@frozen(kw_only=True)
class OutlinedNode:
    """One node of a flow.

    Attributes:
        id: Id in the diagram.
        title: Text on the node, or its id.
        kind: Kind of the node.
        state: State of the unfinished visit, or else of the last visit; ``unreached`` without
            visits.
        visits: Number of visits.
        conversation_id: Id of the conversation of the last visit; empty without a visit.
    """

    id: str
    title: str
    kind: str
    state: str
    visits: int
    conversation_id: str


@frozen(kw_only=True)
class Outline:
    """Outline of a flow's run.

    Attributes:
        diagram: Mermaid diagram with the course of the run; the renderer styles states by classes
            such as ``flow-done``.
        nodes: Nodes of the flow, in the order of the diagram.
        goal: Goal of the flow.
        response: Final response; empty before the flow has ended.
        verdicts: Verdict on each condition of the goal: its ``description``, ``evaluation_type``,
            ``is_met`` and ``evidence``; empty before the evaluation.
    """

    diagram: str
    nodes: Sequence[OutlinedNode]
    goal: str = ""
    response: str = ""
    verdicts: tuple[Mapping[str, JsonValue], ...] = ()
