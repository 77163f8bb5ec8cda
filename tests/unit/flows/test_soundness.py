"""What the check says of a graph is true of its runs, and its work grows as the graph does."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.events.flow import NodeFinishedEvent
from vibe_llms.flows.checking import Surroundings, TaskCheck, check_task
from vibe_llms.flows.graphs import Flow, FlowEdge, NodeKind
from vibe_llms.flows.knowledge import Knowledge
from vibe_llms.flows.prompting import survey_speaking
from vibe_llms.flows.reading import examine_task
from vibe_llms.flows.state import Branch, FlowState

NODES = ("P0", "P1", "P2", "A", "B", "C{c}", "D{d}", "L([x2])", "M([x 3])", "T[/tool/]")
LABELS = ("", "", "", "a", "b", "else", "error", "limit")
EDGES = st.tuples(
    st.sampled_from(("START", *NODES)), st.sampled_from(LABELS), st.sampled_from((*NODES, "END"))
)


def check(edges: list[tuple[str, str, str]], *, strict: bool = False) -> TaskCheck:
    """Checks a task of which only the graph is of interest."""
    lines = [f"{one} -->{f'|{label}|' if label else ''} {other}" for one, label, other in edges]
    task = {
        "goal": {"description": "End."},
        "resource_llm": {"provider": "mock", "model": "echo"},
        "prompts": [{"template": f"{{{{response:P{number}}}}}"} for number in (2, 0, 1)],
        "flow_diagram": {"mermaid": "\n".join(["graph TD", *lines])},
        "ensembles": ["tools"],
    }
    return check_task(examine_task(task, strict=strict), Surroundings(variables=()))


@given(st.lists(EDGES, max_size=14))
def test_whatever_is_drawn_is_checked(edges: list[tuple[str, str, str]]) -> None:
    """And what is said of it does not depend on strictness, which only makes more of it errors."""
    lenient, strict = check(edges), check(edges, strict=True)

    assert {*lenient.errors} <= {*strict.errors}
    assert {*lenient.errors, *lenient.warnings} == {*strict.errors, *strict.warnings}


SHAPES = st.sampled_from(["step", "row", "all", "one", "loop", "again"])


@st.composite
def drawings(draw: st.DrawFn) -> list[tuple[str, str, str]]:
    """Draws diagrams as people do: rows, splits, choices, loops, and a few edges astray."""
    edges: list[tuple[str, str, str]] = []
    numbers = iter(range(1_000))
    prompts = iter(["P0", "P1", "P2"])

    def name(prefix: str = "n", suffix: str = "") -> str:
        return f"{prefix}{next(numbers)}{suffix}"

    def grow(depth: int) -> tuple[str, str]:
        shape = "step" if depth > 2 else draw(SHAPES)
        if shape == "step":
            node = next(prompts, "") if draw(st.booleans()) else ""
            node = node or name()
            return node, node
        if shape == "row":
            (first, middle), (other, last) = grow(depth + 1), grow(depth + 1)
            edges.append((middle, "", other))
            return first, last
        if shape in ("loop", "again"):
            way_in, way_out = grow(depth + 1)
            if shape == "loop":
                head, after = name("L", "([x2])"), name()
                edges.extend([(head, "", way_in), (way_out, "", head), (head, "done", after)])
                return head, after
            choice, after = name("c", "{?}"), name()
            edges.extend([(way_out, "", choice), (choice, "retry", way_in), (choice, "", after)])
            return way_in, after
        first, last = name("s", "{?}" if shape == "one" else ""), name()
        for place in range(draw(st.integers(2, 3))):
            way_in, way_out = grow(depth + 1)
            label = f"way {place}" if shape == "one" and place else ""
            edges.extend([(first, label, way_in), (way_out, "", last)])
        return first, last

    way_in, way_out = grow(0)
    edges.extend([("START", "", way_in), (way_out, "", "END")])
    known = [each for edge in edges for each in (edge[0], edge[2])]
    inner = [each for each in known if each not in ("START", "END")]
    for _ in range(draw(st.integers(0, 2))):
        label = draw(st.sampled_from(["error", "astray"]))
        edges.append((draw(st.sampled_from(inner)), label, draw(st.sampled_from([*inner, "END"]))))
    return edges


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
    speaking = survey_speaking(flow)
    knowledge = Knowledge(flow, speaking)
    state, said = FlowState.begin(flow), set[str]()
    for _ in range(400):
        if not state.branches:
            break
        number = chance.choice(sorted(state.branches))
        branch = state.branches[number]
        for speaker in speaking:
            if knowledge.is_certain(speaker, branch.node):
                assert speaker in said
            if not flow.joins and not knowledge.is_possible(speaker, branch.node):
                assert speaker not in said
        taken = choose(flow, branch, chance)
        if branch.node in speaking and flow.exits[branch.node].error not in taken:
            said.add(branch.node)
        assert taken or branch.node == "END"
        state.apply(
            NodeFinishedEvent(
                node=branch.node,
                visit=state.visits.get(branch.node, 0) + 1,
                branch=number,
                edges=tuple(edge.index for edge in taken),
            )
        )
    else:
        assert all(branch.node in flow.postdominators for branch in state.branches.values())
        return
    assert state.final is not None


def draw_chain(size: int) -> list[tuple[str, str, str]]:
    """A row of steps."""
    return [(f"n{each}", "", f"n{each + 1}") for each in range(size)]


def draw_ladder(size: int) -> list[tuple[str, str, str]]:
    """Choices, each of which goes on, to the end, or back to the one before."""
    return [
        edge
        for each in range(size // 2)
        for edge in (
            (f"n{each}", "", f"c{each}{{x}}"),
            (f"c{each}{{x}}", "yes", f"n{each + 1}"),
            (f"c{each}{{x}}", "no", "END"),
            (f"c{each}{{x}}", "", f"n{max(0, each - 1)}"),
        )
    ] + [(f"n{size // 2}", "", f"n{size}")]


def draw_loops(size: int) -> list[tuple[str, str, str]]:
    """Loops, one after the other."""
    heads = [f"n{each}([x3])" for each in range(size // 2)] + [f"n{size}"]
    return [
        edge
        for each, head in enumerate(heads[:-1])
        for edge in (
            (head, "", f"b{each}"),
            (f"b{each}", "", head),
            (head, "done", heads[each + 1]),
        )
    ]


def draw_branches(size: int) -> list[tuple[str, str, str]]:
    """One split into very many branches."""
    return [
        edge
        for each in range(1, size - 1)
        for edge in (("n0", "", f"b{each}"), (f"b{each}", "", f"n{size}"))
    ]


def draw_nest(size: int) -> list[tuple[str, str, str]]:
    """Splits within splits within splits."""
    depth = size // 4
    edges = [("n0", "", f"b{depth}"), (f"j{depth}", "", f"n{size}"), ("b0", "", "j0")]
    for each in range(1, depth + 1):
        edges += [(f"b{each}", "", f"b{each - 1}"), (f"b{each}", "", f"x{each}")]
        edges += [(f"x{each}", "", f"j{each}"), (f"j{each - 1}", "", f"j{each}")]
    return edges


def draw_islands(size: int) -> list[tuple[str, str, str]]:
    """Very many parts that nobody comes to, and circles."""
    return [("n0", "", f"n{size}")] + [
        edge
        for each in range(size // 2)
        for edge in ((f"a{each}", "", f"b{each}"), (f"b{each}", "", f"a{each}"))
    ]


def count_lines(work: Callable[[], Any]) -> int:
    """Counts the lines of code that something takes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "draw",
    [draw_chain, draw_ladder, draw_loops, draw_branches, draw_nest, draw_islands],
)
def test_the_work_grows_as_the_graph(draw: Callable[[int], list[tuple[str, str, str]]]) -> None:
    """Twice the nodes are at most about twice the work, parsing included."""

    def work(size: int) -> Callable[[], object]:
        first = draw(size)[0][0]
        edges = [("START", "", first), *draw(size), (f"n{size}", "", "END")]
        return lambda: check(edges)

    work(10)()  # what is imported or compiled once is no part of it
    small, large = count_lines(work(200)), count_lines(work(400))

    assert large < 2.3 * small
