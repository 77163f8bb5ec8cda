"""Which nodes have said something when a flow comes to a node: certainly, perhaps, or never."""

from __future__ import annotations

from collections.abc import Collection

from vibe_llms.flows.dominance import Dominators, find_components
from vibe_llms.flows.graphs import EdgeKind, Flow

_LOST = (EdgeKind.ERROR, EdgeKind.LIMIT)
"""The edges that are taken where a visit has brought nothing."""

_OWNERS = 8
"""Of so many splits it is remembered that a node is on every way of one of their branches."""

_SPOKEN = "\N{NULL}"
"""Behind the id of a node that can fail: it has spoken where the flow goes on as it should."""

_AGAIN = "\N{START OF HEADING}"
"""Behind the id of a loop's node: it is come to once more, after a round."""


class Knowledge:
    """What is known of the nodes of a flow that say something, at every other node.

    Args:
        speaking: The ids of those that say something.
    """

    def __init__(self, flow: Flow, speaking: Collection[str]) -> None:
        self._flow = flow
        self.speaking = tuple(speaking)
        self._successors: dict[str, list[str]] = {}
        self._spoken = {name: name for name in speaking}
        for name, edges in flow.leaving.items():
            lost = [edge.target for edge in edges if edge.kind in _LOST]
            if lost and name in self._spoken:
                # A node between: only ways on which nothing was lost lead through it.
                self._spoken[name] = after = name + _SPOKEN
                kept = [edge.target for edge in edges if edge.kind not in _LOST]
                self._successors[after] = kept
                self._successors[name] = [after, *lost]
            else:
                self._successors[name] = [edge.target for edge in edges]
        self._part_loops()  # before all else: dominators and bits are those of the parted graph
        self._dominators = Dominators(self._successors, flow.start)
        # A bit for each: what may have spoken before a node is joined in one step.
        self._bits = {name: 1 << place for place, name in enumerate(self._spoken.values())}
        self._before = self._survey_before()
        self._splits = self._survey_splits()

    def is_possible(self, speaker: str, node: str) -> bool:
        """Tells whether a way leads from one node to another, so that the first may have spoken."""
        return bool(self._find_before(node) & self._bits[self._spoken[speaker]])

    def has_any(self, node: str) -> bool:
        """Tells whether any node may have spoken before."""
        return bool(self._find_before(node))

    def is_certain(self, speaker: str, node: str) -> bool:
        """Tells whether a node has spoken, whichever way the flow came to the other one.

        So it is if every way leads through it; or if it is on every way of a branch of a split,
        and the branches have met before, since all of them were gone.
        """
        dominators, name = self._dominators, self._spoken[speaker]
        if name != node and dominators.dominates(name, node):
            return True
        pending, seen = [name], {name}
        # The split may itself stand in a branch of another one.
        while pending:
            for split in self._splits.get(pending.pop(), ()):
                join = self._find_join(split)
                if dominators.dominates(join, node) and dominators.dominates(split, join):
                    return True
                if split not in seen:
                    seen.add(split)
                    pending.append(split)
        return False

    def _find_before(self, node: str) -> int:
        return self._before.get(node, 0) | self._before.get(node + _AGAIN, 0)

    def _find_join(self, split: str) -> str:
        """Returns the join of a split; in a loop that may be its node, once a round is over."""
        join = self._flow.joins[split]
        is_round = split in self._flow.loops.get(join, ()) and join + _AGAIN in self._successors
        return join + _AGAIN if is_round else join

    def _part_loops(self) -> None:
        """Lets no way pass a loop by: who comes to one goes round at least once.

        What leads back to its node leads to a copy of that, and only this one can be left.
        """
        before: dict[str, list[str]] = {name: [] for name in self._flow.nodes}
        for edge in self._flow.edges:
            before[edge.target].append(edge.source)
        for name, inside in self._flow.loops.items():
            again, out = self._flow.exits[name].split(inside)
            is_left = out or self._flow.exits[name].limit
            if not again or not is_left or self._flow.nodes[name].bound == 0:
                continue
            copy = name + _AGAIN
            self._successors[copy] = self._successors[name]
            first = {self._flow.edges[edge].target for edge in again}
            self._successors[name] = [each for each in self._successors[name] if each in first]
            for each in before[name]:
                if each not in inside:
                    continue
                # What leads back may be two nodes by now, or the node of an inner loop with its
                # copy.
                for known in {each, self._spoken.get(each, each), each + _AGAIN}:
                    if known in self._successors:
                        following = self._successors[known]
                        self._successors[known] = [copy if at == name else at for at in following]

    def _survey_before(self) -> dict[str, int]:
        """Returns for each node, as bits, those that may have spoken before it is visited."""
        found: dict[str, int] = {}
        incoming = dict.fromkeys(self._successors, 0)
        reached = {name: self._successors[name] for name in self._dominators.immediate}
        # From the start on: what comes before is known.
        for group in reversed(find_components(reached)):
            own = before = 0
            for name in group:
                own |= self._bits.get(name, 0)
                before |= incoming[name]
            is_cycle = len(group) > 1 or group[0] in reached[group[0]]
            for name in group:
                # In a cycle each node comes before every other, and before itself.
                found[name] = before | own if is_cycle else before
                for each in reached[name]:
                    incoming[each] |= before | own
        return found

    def _survey_splits(self) -> dict[str, list[str]]:
        """Returns for each node the splits of which every way of one branch leads through it."""
        flow = self._flow
        found: dict[str, list[str]] = {}
        if not flow.joins:
            return found
        before: dict[str, list[str]] = {name: [] for name in self._successors}
        for name, following in self._successors.items():
            for each in following:
                before[each].append(name)
        before[""] = list(flow.ends)  # stands behind all ends; no node is called so
        after = Dominators(before, "").immediate
        for split in flow.joins:
            join = self._find_join(split)
            for edge in flow.exits[split].plain:
                name = edge.target
                while name != join:
                    known = found.setdefault(name, [])
                    if len(known) >= _OWNERS:
                        break  # more would make this slow, and an uncertain answer only warns
                    known.append(split)
                    name = after.get(name, join)  # a branch may come to no end
        return found
