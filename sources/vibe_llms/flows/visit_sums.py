"""Maximum sum over the visits of one run, in which each node adds a weight.

A choice takes the most expensive path, a split takes all paths, and a loop repeats its round as
often as its bound permits. So loops are summed from the inside out, each like a single node; the
remaining graph is acyclic, and its most expensive path is found from the end. A cycle without a
loop node repeats until ``max_iterations`` is reached, and every other visit in it is of another
node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vibe_llms.flows.dominance import find_components
from vibe_llms.flows.graphs import EdgeKind, Flow


class _Crossing(Exception):
    """Split whose branches leave a loop separately: only the total bound is certain."""


class MaximumSum:
    """Maximum sum of node weights over all possible runs.

    Args:
        max_iterations: Maximum number of visits of a run.
    """

    def __init__(self, flow: Flow, max_iterations: int) -> None:
        self._flow = flow
        self._iterations = max_iterations
        # The number of visits of each of two alternating nodes.
        self._half = (max_iterations + 1) // 2
        loops = ((head, members) for head, members in flow.loops.items() if len(members) > 1)
        # An inner loop is the smaller one.
        self._loops = sorted(loops, key=lambda each: len(each[1]))
        self.visits = self._survey_visits()

    def add(self, weights: Mapping[str, float]) -> float:
        """Return the maximum sum.

        Args:
            weights: Weight of one visit of a node, for nodes with a weight.
        """
        heaviest = max((weights.get(name, 0) for name in self.visits), default=0)
        maximum = heaviest * self._iterations
        # No run costs more than a run whose visits are all at the most expensive node.
        try:
            return min(
                maximum, _Sum(self._flow, weights, self._half, self._iterations).add(self._loops)
            )
        except _Crossing:
            return maximum

    def _survey_visits(self) -> dict[str, int]:
        """Return the maximum number of visits of each reachable node."""
        flow = self._flow
        visits = dict.fromkeys(flow.dominators.immediate, 1)
        for head, members in self._loops:
            bound = self.find_bound(head)
            for name in members:
                # The loop's node is visited once more than there are rounds: to leave it.
                visits[name] *= bound + 1 if name == head else bound
        loops = dict(self._loops)
        without = {
            name: [each for each in flow.successors[name] if name not in loops.get(each, ())]
            for name in visits
        }
        for group in find_components(without):
            if len(group) > 1 or group[0] in without[group[0]]:
                for name in group:
                    is_alone = name in without[name]  # a self-loop does not alternate
                    visits[name] *= self._iterations if is_alone else self._half
        return {name: min(each, self._iterations) for name, each in visits.items()}

    def find_bound(self, head: str) -> int:
        """Return the maximum number of rounds of a loop."""
        bound = self._flow.nodes[head].bound
        return self._half if bound is None else min(bound, self._half)


class _Sum:
    """One summation: loops are merged into single nodes, from the inside out."""

    def __init__(
        self, flow: Flow, weights: Mapping[str, float], half: int, iterations: int
    ) -> None:
        self._flow = flow
        self._half, self._iterations = half, iterations
        names = flow.dominators.immediate
        self._weights = {name: weights.get(name, 0) for name in names}
        self._successors: dict[str, list[str]] = {name: flow.successors[name] for name in names}
        self._merged_into = {name: name for name in names}

    def add(self, loops: Iterable[tuple[str, frozenset[str]]]) -> float:
        for head, members in loops:
            inside = {self._find(name) for name in members}
            bound = self._flow.nodes[head].bound
            rounds = self._half if bound is None else min(bound, self._half)
            # The loop's node is visited once more than there are rounds: to leave it.
            total = rounds * self._add_part(inside, head, head) + self._weights[head]
            leaving = [each for name in inside for each in self._successors[name]]
            for name in inside:
                self._merged_into[name] = head
            self._weights[head] = total
            self._successors[head] = [each for each in leaving if self._find(each) != head]
        return self._add_part(
            {self._find(name) for name in self._merged_into}, self._flow.start, ""
        )

    def _find(self, name: str) -> str:
        """Return the merged node that contains a node; compresses the path to it."""
        path = []
        while self._merged_into[name] != name:
            path.append(name)
            name = self._merged_into[name]
        for each in path:
            self._merged_into[each] = name
        return name

    def _add_part(self, inside: set[str], start: str, end: str) -> float:
        """Add up one path through a part of the graph, up to the node ``end``."""
        following = {}
        for name in inside:
            merged = map(self._find, self._successors[name])
            following[name] = [each for each in merged if each in inside and each != end]
        sums: dict[str, float] = {}
        for group in find_components(following):  # successors come first
            within = set(group)
            if len(group) > 1 or group[0] in following[group[0]]:
                after = [sums[each] for name in group for each in following[name] if each in sums]
                total = self._add_cycle(within, following) + max(after, default=0)
                sums |= dict.fromkeys(group, total)
            elif group[0] in self._flow.joins:
                sums[group[0]] = self._add_split(group[0], sums, inside, end)
            else:
                after = [sums[each] for each in following[group[0]]]
                sums[group[0]] = self._weights[group[0]] + max(after, default=0)
        return sums[self._find(start)]

    def _add_cycle(self, group: set[str], following: Mapping[str, list[str]]) -> float:
        """Return the sum of a cycle that repeats to the end: two neighbours share the visits."""
        joins = [self._find(self._flow.joins[name]) for name in group if name in self._flow.joins]
        if not all(each in group for each in joins):
            raise _Crossing
        weights = self._weights
        # Branches need not alternate: each may be at the most expensive node.
        if joins:
            return self._iterations * max(weights[name] for name in group)
        pairs = (
            weights[name] + weights[each]
            for name in group
            for each in following[name]
            if each in group
        )
        return self._half * max(pairs)

    def _add_split(self, name: str, sums: Mapping[str, float], inside: set[str], end: str) -> float:
        join = self._find(self._flow.joins[name])
        if join not in inside:
            raise _Crossing
        after = sums.get(join, 0) if join != end else 0
        total, others = after, 0.0
        for edge in self._flow.leaving[name]:
            target = self._find(edge.target)
            ahead = sums.get(target, 0) if target != end else 0
            # The nodes after the join count once, not for each branch.
            if edge.kind is EdgeKind.PLAIN:
                total += max(0, ahead - after)
            else:
                others = max(others, ahead)
        return self._weights[name] + max(total, others)
