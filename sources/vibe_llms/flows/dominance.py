"""Dominators of a graph, and its loops, cycles and strongly connected components.

A node dominates another if every path from the start to the other contains it. Immediate dominators
are found with the algorithm of Lengauer and Tarjan ("A Fast Algorithm for Finding Dominators in a
Flowgraph", 1979, the simple form). Simpler algorithms, which iterate until nothing changes, become
slow if many edges lead to one node; this one does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

Successors = Mapping[str, Sequence[str]]


class Dominators:
    """Immediate dominators of all nodes reachable from a start, which is its own dominator.

    Args:
        successors: Successors of each node.
        start: Start of all paths.
    """

    def __init__(self, successors: Successors, start: str) -> None:
        self.immediate = _find_dominators(successors, start)

    def dominates(self, upper: str, lower: str) -> bool:
        """Tell whether every path to the lower node contains the upper one (true for itself).

        False if one of the nodes is unreachable.
        """
        if upper not in self._intervals or lower not in self._intervals:
            return False
        first, last = self._intervals[upper]
        number, _ = self._intervals[lower]
        return first <= number <= last

    @cached_property
    def _intervals(self) -> dict[str, tuple[int, int]]:
        """Preorder number of each node in the dominator tree, and the last number below it."""
        children: dict[str, list[str]] = {name: [] for name in self.immediate}
        root = ""
        for name, above in self.immediate.items():
            if name == above:
                root = name
            else:
                children[above].append(name)
        # Without recursion: a chain of dominators may be longer than the stack.
        order: list[str] = []
        pending = [root]
        while pending:
            order.append(name := pending.pop())
            pending += children[name]
        sizes = dict.fromkeys(order, 1)
        for name in reversed(order[1:]):
            sizes[self.immediate[name]] += sizes[name]
        return {name: (number, number + sizes[name] - 1) for number, name in enumerate(order)}


def find_natural_loops(
    successors: Successors, dominators: Dominators, heads: Iterable[str]
) -> dict[str, frozenset[str]]:
    """Return the natural loop of each head: itself, and all nodes that lead to a back edge.

    Natural loops are nested or disjoint. Each inner loop is traversed once; the enclosing loops add
    all its members at once.
    """
    predecessors: dict[str, list[str]] = {}
    for name in dominators.immediate:
        for successor in successors[name]:
            predecessors.setdefault(successor, []).append(name)
    found = {head: frozenset({head}) for head in heads}
    above: dict[str, str] = {}  # for each node of a completed loop: the head of that loop
    # Inner loops first: in preorder, their heads follow those of the enclosing loops.
    for head in reversed([name for name in dominators.immediate if name in found]):
        members = {head}
        # A back edge leads to the head from a node that the head dominates.
        pending = [name for name in predecessors.get(head, ()) if dominators.dominates(head, name)]
        while pending:
            name = _climb(above, pending.pop())
            if name not in members:
                members |= found.get(name, {name})
                above[name] = head
                pending += predecessors.get(name, ())
        found[head] = frozenset(members)
    return found


def _climb(above: dict[str, str], name: str) -> str:
    """Return the outermost known loop of a node; compresses the path to it."""
    path = []
    while name in above:
        path.append(name)
        name = above[name]
    for each in path:
        above[each] = name
    return name


def find_cycles(successors: Successors) -> list[list[str]]:
    """Return the groups of nodes in which each node leads to all others and to itself.

    No group leads to a later one (Tarjan 1972).
    """
    return [
        group
        for group in find_components(successors)
        if len(group) > 1 or group[0] in successors[group[0]]
    ]


def find_components(successors: Successors) -> list[list[str]]:
    """Return the strongly connected components, each before the components that lead to it."""
    numbers: dict[str, int] = {}
    lows: dict[str, int] = {}
    open_: list[str] = []
    is_open: set[str] = set()
    found: list[list[str]] = []
    for root in successors:
        walk = [] if root in numbers else [(root, iter(successors[root]))]
        while walk:
            name, following = walk[-1]
            if name not in numbers:
                numbers[name] = lows[name] = len(numbers)
                open_.append(name)
                is_open.add(name)
            for each in following:
                if each not in numbers:
                    walk.append((each, iter(successors[each])))
                    break
                if each in is_open:
                    lows[name] = min(lows[name], numbers[each])
            else:
                walk.pop()
                if walk:
                    above = walk[-1][0]
                    lows[above] = min(lows[above], lows[name])
                if lows[name] == numbers[name]:
                    # Search from the end, where the group is; from the front, the time would not be
                    # linear.
                    place = len(open_) - 1
                    while open_[place] != name:
                        place -= 1
                    found.append(open_[place:])
                    is_open.difference_update(open_[place:])
                    del open_[place:]
    return found


def _find_dominators(successors: Successors, start: str) -> dict[str, str]:
    """Return the immediate dominator of each reachable node.

    The lists are those of the paper, indexed by the preorder number of a node.
    """
    order, parents, predecessors = _walk(successors, start)
    semi = list(range(len(order)))  # paper: semi
    label = list(range(len(order)))  # paper: label
    above = [-1] * len(order)  # paper: ancestor; -1 for a root of the forest
    found = [0] * len(order)  # paper: dom
    waiting: list[list[int]] = [[] for _ in order]  # paper: bucket

    def find_minimum(number: int) -> int:
        """Return the node with the least semidominator on the path up; compress the path."""
        if above[number] < 0:
            return number
        path = []
        current = number
        while above[above[current]] >= 0:
            path.append(current)
            current = above[current]
        for node in reversed(path):  # from the top down
            upper = above[node]
            if semi[label[upper]] < semi[label[node]]:
                label[node] = label[upper]
            above[node] = above[upper]
        return label[number]

    for number in range(len(order) - 1, 0, -1):
        for each in predecessors[number]:
            semi[number] = min(semi[number], semi[find_minimum(each)])
        waiting[semi[number]].append(number)
        above[number] = parent = parents[number]
        for each in waiting[parent]:
            minimum = find_minimum(each)
            found[each] = minimum if semi[minimum] < semi[each] else parent
        waiting[parent].clear()
    for number in range(1, len(order)):
        # In preorder: the values of the nodes above are final.
        if found[number] != semi[number]:
            found[number] = found[found[number]]
    return {name: order[found[number]] for number, name in enumerate(order)}


def _walk(successors: Successors, start: str) -> tuple[list[str], list[int], list[list[int]]]:
    """Return the reachable nodes in preorder, the parent of each, and the predecessors of each."""
    numbers = {start: 0}
    parents = [0]
    before: list[list[int]] = [[]]
    walk = [(0, iter(successors[start]))]  # no recursion: a diagram may be deeper than the stack
    while walk:
        number, following = walk[-1]
        for each in following:
            if each in numbers:
                before[numbers[each]].append(number)
            else:
                numbers[each] = len(parents)
                parents.append(number)
                before.append([number])
                walk.append((numbers[each], iter(successors[each])))
                break
        else:
            walk.pop()
    return list(numbers), parents, before
