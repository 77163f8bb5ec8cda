"""What the check says of a graph is true of its runs, and its work grows as the graph does."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.flows.flow_drawings import (
    count_lines,
    draw_branches,
    draw_chain,
    draw_islands,
    draw_ladder,
    draw_loops,
    draw_nest,
    draw_nested_loops,
    drawings,
    write_whole,
)
from vibe_llms.events.flow import NodeFinishedEvent
from vibe_llms.flows.checking import check_task
from vibe_llms.flows.checks import Surroundings, TaskCheck
from vibe_llms.flows.graphs import Flow, FlowEdge, NodeKind
from vibe_llms.flows.knowledge import Knowledge
from vibe_llms.flows.prompt_checks import survey_responding
from vibe_llms.flows.state import Branch, FlowState
from vibe_llms.flows.task_reading import examine_task

NODES = ("P0", "P1", "P2", "A", "B", "C{c}", "D{d}", "L([x2])", "M([x 3])", "T[/tool/]")
LABELS = ("", "", "", "a", "b", "else", "error", "limit")
EDGES = st.tuples(
    st.sampled_from(("START", *NODES)), st.sampled_from(LABELS), st.sampled_from((*NODES, "END"))
)


def check(drawing: str | list[tuple[str, str, str]], *, strict: bool = False) -> TaskCheck:
    """Checks a task of which only the graph is of interest."""
    if not isinstance(drawing, str):
        drawing = "\n".join(
            f"{one} -->{f'|{label}|' if label else ''} {other}" for one, label, other in drawing
        )
    task = {
        "goal": {"description": "End."},
        "resource_llm": {"provider": "mock", "model": "echo"},
        "prompts": [{"template": f"{{{{response:P{number}}}}}"} for number in (2, 0, 1)],
        "resource_registry": {"entries": []},
        "flow_diagram": {"mermaid": f"graph TD\n{drawing}"},
        "ensembles": ["tools"],
    }
    return check_task(examine_task(task, strict=strict), Surroundings(variables=()))


@given(st.lists(EDGES, max_size=14))
def test_whatever_is_drawn_is_checked(edges: list[tuple[str, str, str]]) -> None:
    """And what is said of it does not depend on strictness, which only makes more of it errors."""
    lenient, strict = check(edges), check(edges, strict=True)

    assert {*lenient.errors} <= {*strict.errors}
    assert {*lenient.errors, *lenient.warnings} == {*strict.errors, *strict.warnings}


def choose(flow: Flow, branch: Branch, chance: random.Random) -> tuple[FlowEdge, ...]:
    """Goes on as a flow may: loops until their bound, choices anywhere, splits everywhere."""
    exits, node = flow.exits[branch.node], flow.nodes[branch.node]
    good = [*exits.plain, *exits.choices, *([exits.default] if exits.default else [])]
    if node.kind is NodeKind.LOOP:
        members, rounds = flow.loops[node.id], dict(branch.loops).get(node.id, 0)
        body = [edge for edge in good if edge.target in members and edge.target != node.id]
        leaving = [edge for edge in good if edge.target not in members]
        ways = body if body and rounds < (node.bound or 9) else leaving
        return (ways[0] if ways else exits.limit,) if ways or exits.limit else ()
    if exits.error and chance.random() < 0.2:
        return (exits.error,)
    if exits.choices:
        return (chance.choice(good),)
    return exits.plain


@given(drawings(), st.randoms(use_true_random=False))
def test_a_flow_that_passes_comes_to_its_end(
    edges: list[tuple[str, str, str]], chance: random.Random
) -> None:
    """Or could still: and what is certain to have been said was, what cannot have been was not."""
    found = check(edges)
    flow = found.flow
    assert flow is not None
    if found.errors:
        return
    responding = survey_responding(flow)
    knowledge = Knowledge(flow, responding)
    state, said = FlowState.begin(flow), set[str]()
    for _ in range(400):
        if not state.branches:
            break
        number = chance.choice(sorted(state.branches))
        branch = state.branches[number]
        for speaker in responding:
            if knowledge.is_certain(speaker, branch.node):
                assert speaker in said
            if not flow.joins and not knowledge.is_possible(speaker, branch.node):
                assert speaker not in said
        taken = choose(flow, branch, chance)
        if branch.node in responding and flow.exits[branch.node].error not in taken:
            said.add(branch.node)
        assert taken or branch.node == "END"
        state.apply(
            NodeFinishedEvent(
                node=branch.node,
                visit=branch.visit,
                branch=number,
                edges=tuple(edge.index for edge in taken),
            )
        )
    else:
        assert all(branch.node in flow.postdominators for branch in state.branches.values())
        return
    assert state.final is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw",
    [
        draw_chain,
        draw_ladder,
        draw_loops,
        draw_branches,
        draw_nest,
        draw_nested_loops,
        draw_islands,
    ],
)
def test_the_work_grows_as_the_graph(draw: Callable[[int], list[tuple[str, str, str]]]) -> None:
    """Twice the nodes are at most about twice the work, parsing included."""

    def work(size: int) -> Callable[[], object]:
        text = write_whole(draw, size)
        return lambda: check(text)

    work(10)()  # what is imported or compiled once is no part of it
    small, large = count_lines(work(200)), count_lines(work(400))

    assert large < 2.3 * small
