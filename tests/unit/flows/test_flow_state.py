"""Where the run of a flow stands is what its events add up to."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from support.flows.flow_graphs import draw
from vibe_llms.events.flow import FlowEvent, NodeFinishedEvent, NodeStartedEvent
from vibe_llms.flows.graphs import Flow
from vibe_llms.flows.state import FlowState


def visit(state: FlowState, number: int, *targets: str, response: str | None = None) -> FlowEvent:
    """Makes the event of a visit that a branch has made, which goes on to these nodes."""
    branch = state.branches[number]
    edges = [
        edge.index
        for edge in state.flow.edges
        if edge.source == branch.node and edge.target in targets
    ]
    return NodeFinishedEvent(
        node=branch.node,
        visit=branch.visit,
        branch=number,
        edges=tuple(edges),
        response=response,
    )


def test_branches_wait_for_each_other_and_are_one_again() -> None:
    """The last one to come goes on with what all of them said, in the order of the diagram."""
    flow = draw("START > S", "S > A", "S > B", "A > J", "B > J", "J > END")
    state = FlowState.begin(flow)
    state.apply(visit(state, 0, "S"))
    state.apply(visit(state, 0, "A", "B", response="asked"))
    assert {each.node for each in state.branches.values()} == {"A", "B"}
    assert [each.response for each in state.branches.values()] == ["asked", "asked"]
    state.apply(visit(state, 2, "J", response="of B"))
    assert [each.node for each in state.branches.values()] == ["A"]
    state.apply(visit(state, 1, "J", response="of A"))
    assert [(each.number, each.node, each.response) for each in state.branches.values()] == [
        (0, "J", "of A\n\nof B")
    ]
    state.apply(visit(state, 0, "END"))
    state.apply(visit(state, 0))
    assert state.final == "of A\n\nof B"
    assert state.branches == {} == state.splits


def test_rounds_of_loops_are_counted_and_forgotten_outside() -> None:
    """An inner loop begins anew in each round of the outer one, however it was left."""
    flow = draw(
        "START > L1",
        "L1 > L2 : body",
        "L2 > A : body",
        "A > L2 : again",
        "A > B : enough",
        "B > L1",
        "L1 > END : done",
    )
    state = FlowState.begin(flow)
    seen = []
    for target in ("L1", "L2", "A", "L2", "A", "B", "L1", "L2", "A", "B", "L1", "END"):
        state.apply(visit(state, 0, target))
        seen.append(state.branches[0].loops)
    assert seen == [
        (("L1", 0),),
        (("L1", 0), ("L2", 0)),
        (("L1", 0), ("L2", 0)),
        (("L1", 0), ("L2", 1)),
        (("L1", 0), ("L2", 1)),
        (("L1", 0),),
        (("L1", 1),),
        (("L1", 1), ("L2", 0)),
        (("L1", 1), ("L2", 0)),
        (("L1", 1),),
        (("L1", 2),),
        (),
    ]


def test_a_visit_that_has_begun_says_where_it_goes_on() -> None:
    """Until it is over: who takes the run up finds its conversation."""
    state = FlowState.begin(draw("START > P0", "P0 > END"))
    state.apply(visit(state, 0, "P0"))
    state.apply(NodeStartedEvent(node="P0", visit=1, conversation_id="c-1"))
    assert state.open_conversations == {0: {"": "c-1"}}
    state.apply(visit(state, 0, "END", response="Yes."))
    assert state.open_conversations == {}
    assert (state.responses, state.path) == ({"P0": "Yes."}, ["START", "P0"])


@st.composite
def flows(draw_one: st.DrawFn) -> Flow:
    """Makes flows as people draw them: steps, choices, splits and ways back, nested."""
    lines: list[str] = []
    names = iter(range(10_000))

    def grow(depth: int) -> tuple[str, str]:
        """Draws a part with one way in and one way out."""
        shape = draw_one(st.sampled_from(["step"] if depth > 3 else ["step", "all", "one", "row"]))
        first = f"n{next(names)}"
        if shape == "step":
            return first, first
        last = f"n{next(names)}"
        parts = [grow(depth + 1) for _ in range(draw_one(st.integers(2, 3)))]
        if shape == "row":
            (a, b), (c, d), *_ = parts
            lines.append(f"{b} > {c}")
            return a, d
        for place, (way_in, way_out) in enumerate(parts):
            lines.append(f"{first} > {way_in}" + (f" : {place}" if shape == "one" else ""))
            lines.append(f"{way_out} > {last}")
        return first, last

    way_in, way_out = grow(0)
    return draw(*lines, f"START > {way_in}", f"{way_out} > END")


@given(flows(), st.randoms(use_true_random=False))
def test_a_flow_ends_once_and_leaves_nothing_behind(flow: Flow, chance: random.Random) -> None:
    """In whatever order branches go on; taken up after any event, it ends alike."""
    state, events = FlowState.begin(flow), []
    while state.branches:
        number = chance.choice(sorted(state.branches))
        exits = flow.exits[state.branches[number].node]
        taken = exits.plain or (exits.choices and (chance.choice(exits.choices),))
        event = visit(state, number, *(edge.target for edge in taken), response=None)
        assert state.final is None
        events.append(event)
        state.apply(event)
    assert state.final == ""
    assert state.splits == {}
    assert all(count == 1 for count in state.visits.values())
    cut = chance.randrange(len(events) + 1)
    resumed = FlowState.fold(flow, events[:cut])
    for event in events[cut:]:
        resumed.apply(event)
    assert (resumed.path, resumed.final) == (state.path, state.final)
