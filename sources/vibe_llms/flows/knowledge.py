"""Data-flow analysis of responses: which nodes have responded certainly, perhaps or never."""

from __future__ import annotations

from collections.abc import Collection

from vibe_llms.flows.dominance import Dominators, find_components
from vibe_llms.flows.graphs import EdgeKind, Flow

_LOST = (EdgeKind.ERROR, EdgeKind.LIMIT)
"""Kinds of edges that are taken after a visit without a response."""

_MAX_SPLITS = 8
"""Maximum number of splits recorded for a node that is on every path of one of their branches."""

_RESPONDED = "\N{NULL}"
"""Suffix of a node that can fail: the state after a successful visit."""

_AFTER_ROUND = "\N{START OF HEADING}"
"""Suffix of a loop's node: its visit after a round."""


class Knowledge:
    """Knowledge at each node of a flow about the responses of other nodes.

    Args:
        responding: Ids of nodes with responses.
    """

    def __init__(self, flow: Flow, responding: Collection[str]) -> None:
        self._flow = flow
        self.responding = tuple(responding)
        self._successors: dict[str, list[str]] = {}
        self._responded = {name: name for name in responding}
        for name, edges in flow.leaving.items():
            lost = [edge.target for edge in edges if edge.kind in _LOST]
            if lost and name in self._responded:
                # Intermediate node: only paths after a successful visit lead through it.
                self._responded[name] = after = name + _RESPONDED
                followers = [edge.target for edge in edges if edge.kind not in _LOST]
                self._successors[after] = followers
                self._successors[name] = [after, *lost]
            else:
                self._successors[name] = [edge.target for edge in edges]
        self._split_loops()  # first: dominators and bits include the copies
        self._dominators = Dominators(self._successors, flow.start)
        # A bit for each node with a response, so that sets of nodes are united in one step.
        self._bits = {name: 1 << place for place, name in enumerate(self._responded.values())}
        self._before = self._survey_before()
        self._splits = self._survey_splits()

    def is_possible(self, speaker: str, node: str) -> bool:
        """Tell whether a path leads from speaker to node, so that it may have responded."""
        return bool(self._find_before(node) & self._bits[self._responded[speaker]])

    def has_any(self, node: str) -> bool:
        """Tell whether any node may have responded before."""
        return bool(self._find_before(node))

    def is_certain(self, speaker: str, node: str) -> bool:
        """Tell whether a node has certainly responded before the other one, on every path.

        This holds if every path leads through the node; or if the node is on every path of a branch
        of a split, and the branches have already met, because all branches are followed.
        """
        dominators, name = self._dominators, self._responded[speaker]
        if name != node and dominators.dominates(name, node):
            return True
        pending, seen = [name], {name}
        # The split may be in a branch of another one.
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
        return self._before.get(node, 0) | self._before.get(node + _AFTER_ROUND, 0)

    def _find_join(self, split: str) -> str:
        """Return the join of a split; in a loop it may be the loop's node, after a round."""
        join = self._flow.joins[split]
        is_round = (
            split in self._flow.loops.get(join, ()) and join + _AFTER_ROUND in self._successors
        )
        return join + _AFTER_ROUND if is_round else join

    def _split_loops(self) -> None:
        """Copy the nodes of loops, so that every path through a loop makes at least one round.

        Back edges lead to a copy of the loop's node, and only the copy can be left.
        """
        before: dict[str, list[str]] = {name: [] for name in self._flow.nodes}
        for edge in self._flow.edges:
            before[edge.target].append(edge.source)
        for name, inside in self._flow.loops.items():
            again, out = self._flow.exits[name].split(inside)
            is_left = out or self._flow.exits[name].limit
            if not again or not is_left or self._flow.nodes[name].bound == 0:
                continue
            copy = name + _AFTER_ROUND
            self._successors[copy] = self._successors[name]
            first = {self._flow.edges[edge].target for edge in again}
            self._successors[name] = [each for each in self._successors[name] if each in first]
            for each in before[name]:
                if each not in inside:
                    continue
                # The source of a back edge may already be two nodes, or an inner loop's node and
                # copy.
                for source in {each, self._responded.get(each, each), each + _AFTER_ROUND}:
                    if source in self._successors:
                        self._successors[source] = [
                            copy if target == name else target
                            for target in self._successors[source]
                        ]

    def _survey_before(self) -> dict[str, int]:
        """Return for each node, as bits, the nodes that may have responded before its visit."""
        found: dict[str, int] = {}
        incoming = dict.fromkeys(self._successors, 0)
        reached = {name: self._successors[name] for name in self._dominators.immediate}
        # In order from the start: predecessors are known.
        for group in reversed(find_components(reached)):
            own = before = 0
            for name in group:
                own |= self._bits.get(name, 0)
                before |= incoming[name]
            is_cycle = len(group) > 1 or group[0] in reached[group[0]]
            for name in group:
                # In a cycle, each node precedes every other and itself.
                found[name] = before | own if is_cycle else before
                for each in reached[name]:
                    incoming[each] |= before | own
        return found

    def _survey_splits(self) -> dict[str, list[str]]:
        """Return for each node the splits with a branch whose every path leads through it."""
        flow = self._flow
        found: dict[str, list[str]] = {}
        if not flow.joins:
            return found
        before: dict[str, list[str]] = {name: [] for name in self._successors}
        for name, following in self._successors.items():
            for each in following:
                before[each].append(name)
        before[""] = list(flow.ends)  # virtual node after all ends; no node has this id
        after = Dominators(before, "").immediate
        for split in flow.joins:
            join = self._find_join(split)
            for edge in flow.exits[split].plain:
                name = edge.target
                while name != join:
                    splits = found.setdefault(name, [])
                    if len(splits) >= _MAX_SPLITS:
                        break  # for speed; an uncertain answer only warns
                    splits.append(split)
                    name = after.get(name, join)  # a branch may not reach an end
        return found
