"""What follows from how nodes are joined: dominators, joins, loops, exits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from support.flows.flow_graphs import draw
from vibe_llms.flows.dominance import Dominators, find_components, find_natural_loops
from vibe_llms.flows.graphs import Exits


def reach(successors: Mapping[str, Sequence[str]], start: str, without: str = "") -> set[str]:
    """Returns what can be reached from a start, where one node is taken away."""
    seen: set[str] = set()
    pending = [start]
    while pending:
        name = pending.pop()
        if name not in seen and name != without:
            seen.add(name)
            pending += successors[name]
    return seen


GRAPHS = st.integers(1, 9).flatmap(
    lambda count: st.lists(
        st.lists(st.integers(0, count - 1), max_size=3), min_size=count, max_size=count
    )
)


@given(GRAPHS)
def test_a_node_dominates_what_cannot_be_reached_without_it(graph: list[list[int]]) -> None:
    """As its definition says, on whatever graph, of which parts may be out of reach."""
    successors = {f"n{here}": [f"n{each}" for each in there] for here, there in enumerate(graph)}
    found = Dominators(successors, "n0")
    reached = reach(successors, "n0")
    assert set(found.immediate) == reached
    for upper in reached:
        lost = reached - reach(successors, "n0", without=upper)
        assert {each for each in reached if found.dominates(upper, each)} == lost
        nearer = {each for each in reached if each != upper and found.dominates(each, upper)}
        above = found.immediate[upper]
        assert (above in nearer and all(found.dominates(each, above) for each in nearer)) or (
            upper == above == "n0"
        )


@given(GRAPHS)
def test_nodes_that_lead_to_each_other_are_one_component(graph: list[list[int]]) -> None:
    """And a component comes before those that lead to it."""
    successors = {f"n{here}": [f"n{each}" for each in there] for here, there in enumerate(graph)}
    reached = {name: reach(successors, name) for name in successors}
    found = find_components(successors)
    place = {name: number for number, group in enumerate(found) for name in group}
    assert sorted(place) == sorted(successors)
    for one in successors:
        for other in reached[one]:
            assert place[other] <= place[one]
            assert (place[other] == place[one]) == (one in reached[other])


@given(GRAPHS)
def test_a_loop_is_what_leads_back_to_its_head(graph: list[list[int]]) -> None:
    """Without passing it, along edges from what it dominates."""
    successors = {f"n{here}": [f"n{each}" for each in there] for here, there in enumerate(graph)}
    dominators = Dominators(successors, "n0")
    found = find_natural_loops(successors, dominators, successors)
    for head, members in found.items():
        backs = {
            name
            for name in dominators.immediate
            if head in successors[name] and dominators.dominates(head, name)
        }
        leading = {
            name
            for name in dominators.immediate
            if name != head and backs & reach(successors, name, without=head)
        }
        assert members == {head} | leading | (backs & {head})


def test_branches_meet_where_all_ways_from_their_split_lead_through() -> None:
    """Also where one of them splits again, chooses, or goes back to before the split."""
    flow = draw(
        "START > S",
        "S > A",
        "S > B",
        "A > C",
        "A > D",
        "C > E",
        "D > E",
        "E > J : done",
        "E > S : again",
        "B > J",
        "J > END",
    )
    assert flow.joins == {"S": "J", "A": "E"}


def test_a_split_from_which_nothing_ends_has_no_join() -> None:
    """Nobody would wait for branches that never come."""
    assert draw("START > S", "S > A", "S > B", "A > B", "B > A").joins == {}


def test_a_loop_encloses_what_leads_back_to_it() -> None:
    """The inner of two loops does not enclose the outer one; a loop in name alone only itself."""
    flow = draw(
        "START > L1",
        "L1 > A : body",
        "A > L2",
        "L2 > B : body",
        "B > L2",
        "L2 > C : done",
        "C > L1",
        "L1 > L3 : done",
        "L3 > END",
    )
    assert flow.loops == {
        "L1": frozenset({"L1", "A", "L2", "B", "C"}),
        "L2": frozenset({"L2", "B"}),
        "L3": frozenset({"L3"}),
    }


def test_exits_are_sorted_by_when_they_are_taken() -> None:
    """Choices keep the order of the diagram."""
    flow = draw("START > A", "A > B : yes", "A > C : no", "A > D : else", "A > END : error")
    exits = flow.exits["A"]
    _, yes, no, other, failed = flow.edges
    assert exits == Exits(choices=(yes, no), default=other, error=failed)
    assert flow.exits["START"].plain == flow.edges[:1]
    assert flow.ends == ("END",)
