"""What a flow can come to at most is worked out before it runs, and never passed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.flows.flow_drawings import (
    count_lines,
    draw_chain,
    draw_ladder,
    draw_loops,
    draw_nest,
    drawings,
    write_whole,
)
from vibe_llms.events.flow import NodeFinishedEvent
from vibe_llms.flows.bounds import bound_flow, check_budget
from vibe_llms.flows.checking import check_task
from vibe_llms.flows.checks import FlowBound, Surroundings
from vibe_llms.flows.machine import Pass, Stop, VisitNode, choose, decide, escape
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.state import FlowState
from vibe_llms.flows.task_reading import examine_task
from vibe_llms.flows.text_sizes import Provision
from vibe_llms.flows.visit_sums import MaximumSum
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables.invokers import Effect, Invoker

SONNET = {"provider": "anthropic", "model": "claude-sonnet-4-5", "max_tokens": 100}


def make(lines: str, *templates: str, llm: Any = None, **more: Any) -> dict[str, Any]:
    """Returns a task as plain data."""
    return {
        "goal": {"description": "Answer."},
        "resource_llm": llm or SONNET,
        "prompts": [{"template": each} for each in templates or ("Hello",)],
        "resource_registry": {"entries": []},
        "flow_diagram": {"mermaid": f"graph TD\n{lines}"},
        **more,
    }


def bound(
    lines: str, *templates: str, provision: Provision | None = None, llm: Any = None, **more: Any
) -> FlowBound:
    """Works out the bound of a task."""
    provision = provision or Provision()
    around = Surroundings(variables=provision.variables, tools=provision.tools)
    reading = examine_task(make(lines, *templates, llm=llm, **more), strict=False)
    return bound_flow(check_task(reading, around), provision)


@pytest.mark.parametrize(
    ("lines", "requests", "largest"),
    [
        ("START --> P0 --> END", 1, ("P0", 1)),
        ("START --> A --> END", 0, None),
        # A way back without a bound: a prompt and a condition take turns, 1000 visits in all.
        ("START --> P0 --> C{x}\nC -->|success| END\nC -->|retry| P0", 500, ("P0", 500)),
        ("START --> P0 -->|error| P0\nP0 --> END", 1000, ("P0", 1000)),
        ("START --> L([x3]) --> P0 --> L --> END", 3, ("P0", 3)),
        ("START --> L([x3]) --> M([x4]) --> P0 --> M --> L --> P1 --> END", 13, ("P0", 12)),
        ("START --> L([again]) --> P0 --> L --> END", 500, ("P0", 500)),
        # All branches, but one choice.
        ("START --> S --> P0 & P1 --> P2 --> END", 3, None),
        ("START --> P0 --> C{x} -->|a| P1 --> END\nC -->|b| P2 --> P3 --> END\nC --> END", 3, None),
        ("START --> L([x3]) --> S --> P0 & P1 & P2 --> L --> END", 9, None),
        (
            "START --> L([x3]) --> P0 --> C{x} -->|a| P1 --> L --> END\nC -->|stop| P2 --> END\n"
            "C --> L",
            7,
            None,
        ),
        ("START --> S --> P0 & P1 --> J --> END\nP0 -->|error| P2 --> P3 --> J", 4, None),
    ],
)
def test_requests_are_those_of_the_dearest_way(
    lines: str, requests: int, largest: tuple[str, int] | None
) -> None:
    """A loop goes round as often as it may, a split takes all branches, a choice one of them."""
    found = bound(lines, "a", "b", "c", "d")

    assert found.requests == requests
    if largest is not None:
        assert found.largest is not None
        assert (found.largest.id, found.visits) == largest


def test_tokens_grow_with_what_is_put_in() -> None:
    """A response is as long as it may be, a variable and an entry as long as they are."""
    plain = bound("START --> P0 --> P1 --> END", "a", "b")
    quoted = bound("START --> P0 --> P1 --> END", "a", "b{{response:P0}}")
    varied = bound("START --> P0 --> END", "{{text}}", variables={"text": "word " * 1000})
    entries = [{"name": "note", "content": "word " * 1000}]
    fetched = bound(
        "START --> P0 --> END",
        "{{registry:note.content}}",
        resource_registry={"entries": entries},
    )

    assert plain.tokens is not None
    assert 200 < plain.tokens < 300
    assert quoted.tokens == plain.tokens + 100
    assert varied.tokens == fetched.tokens
    assert varied.tokens is not None
    assert 1000 < varied.tokens < 2000
    assert plain.cost_cents is not None
    assert quoted.cost_cents is not None
    assert quoted.cost_cents - plain.cost_cents == pytest.approx(100 * 3e-4)  # $3 a million


def test_what_is_not_known_bounds_nothing_and_says_so() -> None:
    """How long answers are; what a model costs; how long a variable is."""
    open_ended = bound("START --> P0 --> END", llm={**SONNET, "max_tokens": None})
    assert (open_ended.requests, open_ended.tokens, open_ended.cost_cents) == (1, None, None)
    assert "set 'max_tokens'" in open_ended.reasons[0]

    unheard = bound("START --> P0 --> END", llm={**SONNET, "model": "abracadabra"})
    assert (unheard.tokens is not None, unheard.cost_cents) == (True, None)
    assert "no price is known" in unheard.reasons[0]

    mock = bound("START --> P0 --> END", llm={"provider": "mock", "model": "a", "max_tokens": 9})
    assert (mock.cost_cents, mock.reasons) == (0.0, ())


def test_asking_a_model_which_edge_to_take_counts() -> None:
    """Also that an answer which does not fit is asked for three times; and so does the goal."""
    lines = "START --> P0 --> C{x} -->|a| END\nC --> END"
    rule = {"a": {"keywords": ["a"]}}
    described = {"a": {"description": "It is fine."}}
    goal = {
        "description": "Answer.",
        "target_conditions": [{"description": "It is kind.", "evaluation_type": "JUDGE"}],
    }

    assert bound(lines, categories=rule).requests == 1
    assert bound(lines, categories=described).requests == 4
    assert bound(lines, categories=rule, goal=goal).requests == 4


def test_a_model_with_tools_takes_all_its_turns() -> None:
    """As far as its run may go."""
    tool = Invoker(
        name="look",
        description="Looks.",
        schema={"type": "object"},
        function=print,
        effect=Effect.PURE,
    )
    provision = Provision(tools={"look": tool})

    found = bound("START --> P0 --> END", provision=provision)
    looked = bound("START --> T[/look/] --> END", provision=provision)

    assert found.requests == provision.limits.run_steps == 50
    assert found.tokens is not None
    assert found.tokens > 1_000_000
    assert (looked.requests, looked.tokens) == (0, 0)


def test_a_subflow_counts_as_often_as_it_runs(tmp_path: Path) -> None:
    """With all that it comes to by itself, and with what it is given."""
    below = make("START --> P0 --> P1 --> END", "a", "{{input}}")
    task = make("START --> L([x3]) --> P0 --> S[[below]] --> L --> END", "a")
    (tmp_path / "below.json").write_text(json.dumps(below))
    (tmp_path / "task.json").write_text(json.dumps(task))
    around = Surroundings(variables=())

    found = bound_flow(check_task(examine_task(tmp_path / "task.json"), around))
    alone = bound_flow(
        check_task(examine_task(tmp_path / "below.json"), Surroundings(variables={"input"})),
        Provision(variables={"input": ""}),
    )

    assert found.requests == 9
    assert found.tokens is not None
    assert alone.tokens is not None
    plain = bound("START --> P0 --> END", "a").tokens
    assert plain is not None
    assert found.tokens == 3 * (plain + alone.tokens + 100)  # what P0 says, as {{input}}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (AdapterConfig(), ""),
        (AdapterConfig(max_requests=500, max_tokens=100_000, max_cost_cents=500.0), ""),
        (
            AdapterConfig(max_requests=20),
            "flow_diagram.mermaid:2:11: The flow may need 500 requests, but max_requests is 20. "
            "The largest part is P0, which may be visited 500 times: lower the bound "
            "of its loop, lower max_iterations, or raise max_requests.",
        ),
        (AdapterConfig(max_tokens=9), "but max_tokens is 9."),
        (AdapterConfig(max_cost_cents=0.5), "cents, but max_cost_cents is 0.5."),
    ],
)
def test_a_budget_that_could_be_exceeded_is_refused(config: AdapterConfig, message: str) -> None:
    """With the number, the node that is to blame, and what to do."""
    task = make("START --> P0 --> C{x}\nC -->|success| END\nC -->|retry| P0")
    reading = examine_task(task)
    found = check_budget(
        bound_flow(check_task(reading, Surroundings(variables=()))), config, reading
    )

    assert len(found) == bool(message)
    assert all(message in str(each) for each in found)


def test_what_cannot_be_said_is_refused_where_a_budget_asks_for_it() -> None:
    """But for money, where nobody sends a bill."""
    budgets = AdapterConfig(max_requests=1, max_tokens=10**9, max_cost_cents=10**9)
    unknown = examine_task(make("START --> P0 --> END", llm={**SONNET, "max_tokens": None}))
    mock = examine_task(make("START --> P0 --> END", llm={"provider": "mock", "model": "a"}))

    def find(reading: Any) -> list[str]:
        check = check_task(reading, Surroundings(variables=()))
        return [each.message[:40] for each in check_budget(bound_flow(check), budgets, reading)]

    assert find(unknown) == [
        "It is unknown if max_tokens = 1,000,000,",
        "It is unknown if max_cost_cents = 1,000,",
    ]
    assert find(mock) == ["It is unknown if max_tokens = 1,000,000,"]


@given(drawings(), st.randoms(use_true_random=False), st.integers(1, 60))
def test_no_run_adds_up_to_more(
    edges: list[tuple[str, str, str]], chance: random.Random, iterations: int
) -> None:
    """Whatever is chosen, whatever fails, in whatever order branches go on."""
    lines = "\n".join(
        f"{one} -->{f'|{label}|' if label else ''} {other}" for one, label, other in edges
    )
    check = check_task(examine_task(make(lines, "a", "b", "c"), strict=False))
    if check.errors:
        return
    flow = check.access_flow()
    weights = {name: chance.choice([0, 0, 1, 3, 10]) for name in flow.nodes}
    total = MaximumSum(flow, iterations)
    state, added = FlowState.begin(flow), 0
    while not isinstance(command := decide(state, (), iterations), Stop):
        assert command is not None
        number = chance.choice(sorted(state.branches))
        working = {each for each in state.branches if each != number}
        command = decide(state, working, iterations)
        assert isinstance(command, Pass | VisitNode)
        if isinstance(command, VisitNode):
            exits = flow.exits[command.node.id]
            taken = escape(exits, is_limit=False) if chance.random() < 0.2 else ()
            labels = [edge.label for edge in exits.choices] + [""] * (exits.default is not None)
            taken = taken or choose(exits, chance.choice(labels or [""]))
            event = NodeFinishedEvent(
                node=command.node.id, visit=command.number, branch=number, edges=taken
            )
        else:
            event = command.event
        added += weights[event.node]
        state.apply(event)

    assert added <= total.add(weights)
    if not flow.joins:
        assert all(state.path.count(name) <= total.visits[name] for name in state.path)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [draw_chain, draw_ladder, draw_loops, draw_nest])
def test_the_work_of_bounding_grows_as_the_graph(
    draw: Callable[[int], list[tuple[str, str, str]]],
) -> None:
    """Twice the nodes are about twice the work."""

    def work(size: int) -> Callable[[], object]:
        check = check_task(examine_task(make(write_whole(draw, size)), strict=False))
        check = attrs.evolve(check, errors=())
        return lambda: bound_flow(check)

    work(10)()
    assert count_lines(work(400)) < 2.3 * count_lines(work(200))


def test_a_way_back_through_a_split_adds_the_dearest_of_its_nodes() -> None:
    """Since its branches need not take turns."""
    lines = (
        "START --> Q --> S --> P0 & P1 --> C{x} -->|again| S\nC -->|else| END\n"
        "P0 -->|error| C\nP1 -->|error| C"
    )
    flow = check_task(examine_task(make(lines, "a", "b"), strict=False)).access_flow()

    assert MaximumSum(flow, 50).add({"Q": 100, "P0": 1, "P1": 2}) == 200


def test_turns_of_tools_end_with_the_tokens_of_a_run() -> None:
    """Where its model uses all of them: the last answer comes on top."""
    few = Provision(limits=Limits(run_steps=2, run_invocations=1))
    poor = Provision(limits=Limits(run_steps=50, run_tokens=1000, run_invocations=1))
    plain = bound("START --> P0 --> END").tokens
    turns = bound("START --> P0 --> END", provision=few, ensembles=["files"])
    spent = bound("START --> P0 --> END", provision=poor, ensembles=["files"])

    assert plain is not None
    first, result = plain - 100, 25_000
    last = first + 2 * 100 + result
    assert (turns.requests, turns.tokens) == (2, 2 * last + 2 * 100)
    last = first + 50 * 100 + result
    assert (spent.requests, spent.tokens) == (50, 1000 + last + 1000 + 100)


def test_a_subflow_that_chooses_is_judged_as_well(tmp_path: Path) -> None:
    """What it comes to and what the judge does are added."""
    task = make(
        "START --> S[[below]] -->|good| END\nS --> END",
        categories={"good": {"description": "It is good."}},
        prompts=[],
    )
    (tmp_path / "below.json").write_text(json.dumps(make("START --> P0 --> END", "a")))
    (tmp_path / "task.json").write_text(json.dumps(task))

    reading = examine_task(tmp_path / "task.json")
    found = bound_flow(check_task(reading, Surroundings(variables=())))

    assert found.requests == 1 + 3
    [excess] = check_budget(found, AdapterConfig(max_tokens=5), reading)
    assert "S, which may be visited once: lower 'max_tokens' in 'resource_llm'" in excess.message
