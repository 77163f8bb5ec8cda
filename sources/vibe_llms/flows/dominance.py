"""Which node of a graph every way to another leads through.

A node dominates another if every way from the start to the other passes it. Immediate dominators
are found by the iteration of Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm",
2001), which takes two or three rounds over a graph as people draw them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence


def find_dominators(successors: Mapping[str, Sequence[str]], start: str) -> dict[str, str]:
    """Returns the immediate dominator of each node that can be reached; the start is its own.

    Args:
        successors: The nodes that follow each node.
        start: Where all ways begin.
    """
    order = _order(successors, start)
    rank = {name: number for number, name in enumerate(order)}
    before: dict[str, list[str]] = {name: [] for name in order}
    for name in order:
        for each in successors[name]:
            before[each].append(name)
    found = {start: start}
    is_changed = True
    while is_changed:
        is_changed = False
        for name in order[1:]:
            known = [each for each in before[name] if each in found]
            nearest = functools.reduce(lambda one, other: _meet(found, rank, one, other), known)
            if found.get(name) != nearest:
                found[name] = nearest
                is_changed = True
    return found


def dominates(dominators: Mapping[str, str], upper: str, lower: str) -> bool:
    """Tells whether every way to a node passes another, or is it."""
    while lower != upper:
        above = dominators.get(lower, lower)
        if above == lower:
            return False
        lower = above
    return True


def find_natural_loop(
    successors: Mapping[str, Sequence[str]], dominators: Mapping[str, str], head: str
) -> frozenset[str]:
    """Returns a head, and all from which an edge leads back to it that it dominates."""
    before: dict[str, list[str]] = {}
    for name in dominators:
        for each in successors[name]:
            before.setdefault(each, []).append(name)
    members = {head}
    pending = [each for each in before.get(head, ()) if dominates(dominators, head, each)]
    while pending:
        name = pending.pop()
        if name not in members:
            members.add(name)
            pending += before.get(name, ())
    return frozenset(members)


def _order(successors: Mapping[str, Sequence[str]], start: str) -> list[str]:
    """Returns what can be reached, in reverse postorder."""
    seen, left = {start}, []  # no recursion: a diagram may be longer than the stack of Python
    walk = [(start, iter(successors[start]))]
    while walk:
        name, following = walk[-1]
        for each in following:
            if each not in seen:
                seen.add(each)
                walk.append((each, iter(successors[each])))
                break
        else:
            walk.pop()
            left.append(name)
    return left[::-1]


def _meet(found: Mapping[str, str], rank: Mapping[str, int], one: str, other: str) -> str:
    while one != other:
        while rank[one] > rank[other]:
            one = found[one]
        while rank[other] > rank[one]:
            other = found[other]
    return one
