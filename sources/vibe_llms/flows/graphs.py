"""Graph of a flow: the nodes and edges that a run follows, and properties of their structure.

A diagram contains more than a run needs (shapes, styles, directions), and less: which edges are
alternatives and which are taken together, where branches wait for each other, and which nodes a
loop encloses. These properties are computed here, once, before anything runs.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Container, Iterable, Mapping
from typing import Final

from vibe_llms.flows.dominance import Dominators, find_natural_loops
from vibe_llms.foundation.attrs_classes import frozen


class NodeKind(enum.StrEnum):
    """Kinds of nodes, which determine the action of a visit."""

    START = "start"
    END = "end"
    PROMPT = "prompt"
    CONDITION = "condition"
    LOOP = "loop"
    STEP = "step"
    TOOL = "tool"
    SUBFLOW = "subflow"


WORKING_KINDS: Final = frozenset({NodeKind.PROMPT, NodeKind.TOOL, NodeKind.SUBFLOW})
"""Kinds of nodes whose visits take time and may cost something; all others end immediately."""


class EdgeKind(enum.StrEnum):
    """Kinds of edges: taken always, if their label is chosen, if none is, or after a failure."""

    PLAIN = "plain"
    CHOICE = "choice"
    DEFAULT = "default"
    ERROR = "error"
    LIMIT = "limit"


@frozen(kw_only=True)
class FlowNode:
    """One node.

    Attributes:
        text: Label of the node.
        prompt: Index of its prompt in the task, from 0; ``None`` for other kinds.
        bound: Maximum number of rounds of a loop; ``None`` if its label contains none.
        line: Line of its first occurrence in the diagram, from 1.
        column: Column in that line, from 1.
    """

    id: str
    kind: NodeKind
    text: str = ""
    prompt: int | None = None
    bound: int | None = None
    line: int = 0
    column: int = 0


@frozen(kw_only=True)
class FlowEdge:
    """One edge; ``index`` is its index among all edges, from 0."""

    index: int
    source: str
    target: str
    kind: EdgeKind = EdgeKind.PLAIN
    label: str = ""
    line: int = 0
    column: int = 0


@frozen(kw_only=True, slots=False)
class Exits:
    """Outgoing edges of a node, by the condition for taking them."""

    plain: tuple[FlowEdge, ...] = ()
    choices: tuple[FlowEdge, ...] = ()
    default: FlowEdge | None = None
    error: FlowEdge | None = None
    limit: FlowEdge | None = None

    @classmethod
    def sort(cls, edges: Iterable[FlowEdge]) -> Exits:
        """Sort the outgoing edges of a node. Of several defaults or failures, the first counts."""
        by_kind: dict[EdgeKind, list[FlowEdge]] = {kind: [] for kind in EdgeKind}
        for edge in edges:
            by_kind[edge.kind].append(edge)
        return cls(
            plain=tuple(by_kind[EdgeKind.PLAIN]),
            choices=tuple(by_kind[EdgeKind.CHOICE]),
            default=next(iter(by_kind[EdgeKind.DEFAULT]), None),
            error=next(iter(by_kind[EdgeKind.ERROR]), None),
            limit=next(iter(by_kind[EdgeKind.LIMIT]), None),
        )

    @functools.cached_property
    def onward(self) -> tuple[int, ...]:
        """Indices of the edges that are taken without a choice and without a failure."""
        edges = self.plain if self.default is None else (self.default,)
        return tuple(edge.index for edge in edges)

    def split(self, inside: Container[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Split a loop's edges, except errors: edges into a round, and edges out of the loop."""
        edges = [*self.plain, *self.choices, *([self.default] if self.default else [])]
        again = tuple(edge.index for edge in edges if edge.target in inside)
        return again, tuple(edge.index for edge in edges if edge.target not in inside)


@frozen(kw_only=True, eq=False, slots=False)
class Flow:
    """Executable graph.

    Attributes:
        nodes: Nodes by id, in the order of the diagram.
        edges: Edges in the order of the diagram.
        start: Id of the node where a run starts.
    """

    nodes: Mapping[str, FlowNode]
    edges: tuple[FlowEdge, ...]
    start: str = "START"

    @functools.cached_property
    def exits(self) -> Mapping[str, Exits]:
        """Outgoing edges of each node, by the condition for taking them."""
        return {name: Exits.sort(edges) for name, edges in self.leaving.items()}

    @functools.cached_property
    def leaving(self) -> Mapping[str, list[FlowEdge]]:
        """Outgoing edges of each node, in the order of the diagram."""
        leaving: dict[str, list[FlowEdge]] = {each: [] for each in self.nodes}
        for edge in self.edges:
            leaving[edge.source].append(edge)
        return leaving

    @functools.cached_property
    def ends(self) -> tuple[str, ...]:
        """Ids of the nodes where a run ends."""
        return tuple(node.id for node in self.nodes.values() if node.kind is NodeKind.END)

    @functools.cached_property
    def successors(self) -> Mapping[str, list[str]]:
        """Successors of each node, along all edges."""
        return {name: [edge.target for edge in edges] for name, edges in self.leaving.items()}

    @functools.cached_property
    def dominators(self) -> Dominators:
        """Dominators of the reachable nodes."""
        return Dominators(self.successors, self.start)

    @functools.cached_property
    def postdominators(self) -> Mapping[str, str]:
        """Nearest post-dominator of each node: every path from the node to an end contains it."""
        return self.find_postdominators(EdgeKind)

    @functools.cached_property
    def joins(self) -> Mapping[str, str]:
        """Join of each split, where the branches wait for each other: the nearest post-dominator.

        Every path from the split to an end contains that node, so that all branches reach it,
        independent of their choices. A split from which no end is reachable has no join. A loop
        node is not a split: its edges are rounds and the exit.
        """
        found = self.postdominators
        return {
            name: found[name]
            for name, exits in self.exits.items()
            if len(exits.plain) > 1 and self.nodes[name].kind is not NodeKind.LOOP and name in found
        }

    @functools.cached_property
    def loops(self) -> Mapping[str, frozenset[str]]:
        """Nodes that each loop node encloses, including itself; only itself without a back edge."""
        heads = (node.id for node in self.nodes.values() if node.kind is NodeKind.LOOP)
        return find_natural_loops(self.successors, self.dominators, heads)

    def find_postdominators(self, kinds: Iterable[EdgeKind]) -> dict[str, str]:
        """Return :attr:`postdominators`, considering only edges of some kinds.

        A node from which no end is reachable has none, and neither has an end.
        """
        kinds = set(kinds)
        predecessors: dict[str, list[str]] = {name: [] for name in self.nodes}
        # In the reversed graph, a node's dominators are on every path from it to an end.
        predecessors[_EXIT] = list(self.ends)
        for edge in self.edges:
            if edge.kind in kinds:
                predecessors[edge.target].append(edge.source)
        found = Dominators(predecessors, _EXIT).immediate
        return {name: above for name, above in found.items() if above != _EXIT}


_EXIT = "\N{NULL}"
"""Virtual node after all ends; no node of a diagram has this id."""
