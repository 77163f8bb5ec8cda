"""How much the visits of one run can add up to, where each node adds something.

A choice takes the dearer way, a split all of them, a loop its round so often as its bound says. So
loops are summed up from the inside out, each as if it were one node; what is left has no way back,
and the dearest way through it is found from the end on. A way back without a loop node is gone
along until ``max_iterations`` is reached, and every other visit there is of another node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vibe_llms.flows.dominance import find_components
from vibe_llms.flows.graphs import EdgeKind, Flow


class _Crossing(Exception):
    """A split whose branches leave a loop one by one: then nothing less than all is certain."""


class GreatestSum:
    """Adds up what nodes add, for the dearest run that there can be.

    Args:
        max_iterations: How many visits a run may have.
    """

    def __init__(self, flow: Flow, max_iterations: int) -> None:
        self._flow = flow
        self._iterations = max_iterations
        # Of two nodes that take turns each is visited so often.
        self._half = (max_iterations + 1) // 2
        loops = ((head, members) for head, members in flow.loops.items() if len(members) > 1)
        # An inner loop is the smaller one.
        self._loops = sorted(loops, key=lambda each: len(each[1]))
        self.visits = self._survey_visits()

    def add(self, weights: Mapping[str, float]) -> float:
        """Returns the greatest sum.

        Args:
            weights: What one visit of a node adds, for those that add anything.
        """
        dearest = max((weights.get(name, 0) for name in self.visits), default=0)
        most = dearest * self._iterations
        # No run is dearer than if all of its visits were of the dearest node.
        try:
            return min(
                most, _Sum(self._flow, weights, self._half, self._iterations).add(self._loops)
            )
        except _Crossing:
            return most

    def _survey_visits(self) -> dict[str, int]:
        """Returns how often each node can be visited that can be reached."""
        flow = self._flow
        visits = dict.fromkeys(flow.dominators.immediate, 1)
        for head, members in self._loops:
            bound = self.find_bound(head)
            for name in members:
                # Its node is visited once more than the loop goes round: to leave it.
                visits[name] *= bound + 1 if name == head else bound
        loops = dict(self._loops)
        without = {
            name: [each for each in flow.successors[name] if name not in loops.get(each, ())]
            for name in visits
        }
        for group in find_components(without):
            if len(group) > 1 or group[0] in without[group[0]]:
                for name in group:
                    is_alone = name in without[name]  # what leads to itself takes no turns
                    visits[name] *= self._iterations if is_alone else self._half
        return {name: min(each, self._iterations) for name, each in visits.items()}

    def find_bound(self, head: str) -> int:
        """Returns how often a loop goes round at most."""
        bound = self._flow.nodes[head].bound
        return self._half if bound is None else min(bound, self._half)


class _Sum:
    """One adding up: nodes become one with the loop that they are in, from the inside out."""

    def __init__(
        self, flow: Flow, weights: Mapping[str, float], half: int, iterations: int
    ) -> None:
        self._flow = flow
        self._half, self._iterations = half, iterations
        names = flow.dominators.immediate
        self._weights = {name: weights.get(name, 0) for name in names}
        self._successors: dict[str, list[str]] = {name: flow.successors[name] for name in names}
        self._above = {name: name for name in names}

    def add(self, loops: Iterable[tuple[str, frozenset[str]]]) -> float:
        for head, members in loops:
            inside = {self._find(name) for name in members}
            bound = self._flow.nodes[head].bound
            rounds = self._half if bound is None else min(bound, self._half)
            # It comes to its node once more than it goes round: to leave it.
            total = rounds * self._add_part(inside, head, head) + self._weights[head]
            leaving = [each for name in inside for each in self._successors[name]]
            for name in inside:
                self._above[name] = head
            self._weights[head] = total
            self._successors[head] = [each for each in leaving if self._find(each) != head]
        return self._add_part({self._find(name) for name in self._above}, self._flow.start, "")

    def _find(self, name: str) -> str:
        """Returns what a node has become a part of, and makes the way there short."""
        way = []
        while self._above[name] != name:
            way.append(name)
            name = self._above[name]
        for each in way:
            self._above[each] = name
        return name

    def _add_part(self, inside: set[str], start: str, end: str) -> float:
        """Adds up one way through a part of the graph, which ends where it comes to ``end``."""
        following = {
            name: [
                found
                for each in self._successors[name]
                if (found := self._find(each)) in inside and found != end
            ]
            for name in inside
        }
        sums: dict[str, float] = {}
        for group in find_components(following):  # what follows comes before
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
        """Adds up what goes round until the end: half of the visits each for two neighbours."""
        joins = [self._find(self._flow.joins[name]) for name in group if name in self._flow.joins]
        if not all(each in group for each in joins):
            raise _Crossing
        weights = self._weights
        # Branches need not take turns: each may be at the dearest node.
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
            # What follows the join comes once, not with each branch.
            if edge.kind is EdgeKind.PLAIN:
                total += max(0, ahead - after)
            else:
                others = max(others, ahead)
        return self._weights[name] + max(total, others)
