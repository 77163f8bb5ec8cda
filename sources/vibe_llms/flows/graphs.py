"""A flow: the nodes and edges that a run walks along, and what follows from how they are joined.

A diagram says more than a run needs (shapes, styles, directions), and less: which edges are
chosen among and which are taken together, where branches wait for each other, and what a loop
encloses. That is worked out here, once, before anything runs.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Container, Iterable, Mapping
from typing import Final

from vibe_llms.flows.dominance import Dominators, find_natural_loops
from vibe_llms.foundation.attrs_classes import frozen


class NodeKind(enum.StrEnum):
    """What a visit of a node does."""

    START = "start"
    END = "end"
    PROMPT = "prompt"
    CONDITION = "condition"
    LOOP = "loop"
    STEP = "step"
    TOOL = "tool"
    SUBFLOW = "subflow"


ENGAGED: Final = frozenset({NodeKind.PROMPT, NodeKind.TOOL, NodeKind.SUBFLOW})
"""Kinds of nodes whose visits take time and may cost something; all others are over at once."""


class EdgeKind(enum.StrEnum):
    """When an edge is taken: always, when its label is chosen, when none is, or after a failure."""

    PLAIN = "plain"
    CHOICE = "choice"
    DEFAULT = "default"
    ERROR = "error"
    LIMIT = "limit"


@frozen(kw_only=True)
class FlowNode:
    """One node.

    Attributes:
        text: What is written on it.
        prompt: Which of the task's prompts it puts, from 0; ``None`` for other kinds.
        bound: How often a loop goes round at most; ``None`` where its label does not say.
        line: Where the diagram names it first, from 1.
        column: In that line, from 1.
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
    """One edge; ``index`` is its place among all, from 0."""

    index: int
    source: str
    target: str
    kind: EdgeKind = EdgeKind.PLAIN
    label: str = ""
    line: int = 0
    column: int = 0


@frozen(kw_only=True, slots=False)
class Exits:
    """The edges that leave a node, by when they are taken."""

    plain: tuple[FlowEdge, ...] = ()
    choices: tuple[FlowEdge, ...] = ()
    default: FlowEdge | None = None
    error: FlowEdge | None = None
    limit: FlowEdge | None = None

    @classmethod
    def sort(cls, edges: Iterable[FlowEdge]) -> Exits:
        """Sorts the edges that leave a node. Of several defaults or failures the first counts."""
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
        """The places of the edges that are taken where nothing is chosen and nothing failed."""
        ways = self.plain if self.default is None else (self.default,)
        return tuple(edge.index for edge in ways)

    def split(self, inside: Container[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Tells the edges of a loop that go round from those that leave it, errors aside."""
        ways = [*self.plain, *self.choices, *([self.default] if self.default else [])]
        again = tuple(edge.index for edge in ways if edge.target in inside)
        return again, tuple(edge.index for edge in ways if edge.target not in inside)


@frozen(kw_only=True, eq=False, slots=False)
class Flow:
    """A graph that can be run.

    Attributes:
        nodes: By id, in the order of the diagram.
        edges: In the order of the diagram.
        start: The id of the node where a run begins.
    """

    nodes: Mapping[str, FlowNode]
    edges: tuple[FlowEdge, ...]
    start: str = "START"

    @functools.cached_property
    def exits(self) -> Mapping[str, Exits]:
        """What leaves each node, by when it is taken."""
        return {name: Exits.sort(edges) for name, edges in self.leaving.items()}

    @functools.cached_property
    def leaving(self) -> Mapping[str, list[FlowEdge]]:
        """What leaves each node, in the order of the diagram."""
        leaving: dict[str, list[FlowEdge]] = {each: [] for each in self.nodes}
        for edge in self.edges:
            leaving[edge.source].append(edge)
        return leaving

    @functools.cached_property
    def ends(self) -> tuple[str, ...]:
        """The ids of the nodes where a run ends."""
        return tuple(node.id for node in self.nodes.values() if node.kind is NodeKind.END)

    @functools.cached_property
    def successors(self) -> Mapping[str, list[str]]:
        """What follows each node, along whatever edge."""
        return {name: [edge.target for edge in edges] for name, edges in self.leaving.items()}

    @functools.cached_property
    def dominators(self) -> Dominators:
        """Which node every way to another leads through; of those that can be reached alone."""
        return Dominators(self.successors, self.start)

    @functools.cached_property
    def postdominators(self) -> Mapping[str, str]:
        """The nearest node through which every way from each node to an end leads."""
        return self.find_postdominators(EdgeKind)

    @functools.cached_property
    def joins(self) -> Mapping[str, str]:
        """Where the branches of each split wait for each other: its nearest post-dominator.

        Every way from the split to an end leads through that node, so that all branches come
        there, whatever they choose on the way. A split from which no end can be reached has none.
        A loop node is no split: its edges are rounds and the way out.
        """
        found = self.postdominators
        return {
            name: found[name]
            for name, exits in self.exits.items()
            if len(exits.plain) > 1 and self.nodes[name].kind is not NodeKind.LOOP and name in found
        }

    @functools.cached_property
    def loops(self) -> Mapping[str, frozenset[str]]:
        """What each loop node encloses, itself among it; only itself where nothing leads back."""
        heads = (node.id for node in self.nodes.values() if node.kind is NodeKind.LOOP)
        return find_natural_loops(self.successors, self.dominators, heads)

    def find_postdominators(self, kinds: Iterable[EdgeKind]) -> dict[str, str]:
        """Returns the same as :attr:`postdominators`, as if there were no edges but of some kinds.

        A node from which no end can be reached has none, and neither has an end.
        """
        kinds = set(kinds)
        before: dict[str, list[str]] = {name: [] for name in self.nodes}
        # Seen from behind all ends, what dominates a node is what every way from it leads through.
        before[_EXIT] = list(self.ends)
        for edge in self.edges:
            if edge.kind in kinds:
                before[edge.target].append(edge.source)
        found = Dominators(before, _EXIT).immediate
        return {name: above for name, above in found.items() if above != _EXIT}


_EXIT = "\N{NULL}"
"""Stands behind all ends; no node of a diagram is called so."""
