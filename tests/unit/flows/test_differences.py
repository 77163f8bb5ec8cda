"""Two versions of a task are one diagram."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import attrs
import pytest

from support.diagrams.mermaid_cases import agree, ask, compose_oracle, describe
from support.diagrams.mermaid_texts import TEXTS
from support.quality.properties import sample
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.flows.differences import Change, compare_tasks, draw_difference
from vibe_llms.flows.task_reading import read_task
from vibe_llms.flows.tasks import FlowDiagram, Task
from vibe_llms.mermaid import parse_diagram

OLD = """graph TD
START --> P0 --> C{ok?}
C -->|yes| END
C -->|no| P1([Retry x2])
P1 --> P0"""

NEW = """graph TD
%% with a remedy
START --> P0 --> C{fine?}
C -->|yes| END
C -->|no| FIX[Fix it]
FIX --> P0
"""


def make(mermaid: str, *prompts: str, **more: Any) -> Task:
    """A task with this diagram."""
    return read_task(
        {
            "goal": {"description": "to compare"},
            "resource_llm": {"provider": "mock", "model": "m"},
            "prompts": [{"template": each} for each in prompts or ("first", "second")],
            "resource_registry": {"entries": []},
            "flow_diagram": {"mermaid": mermaid},
            **more,
        }
    )


def test_what_has_changed_is_known() -> None:
    """Nodes by their ids, what prompts say among it; edges by their ends and labels."""
    difference = compare_tasks(make(OLD), make(NEW, "first, and kindly", "second"))

    assert [(each.node, each.change, each.details) for each in difference.nodes] == [
        ("P0", Change.CHANGED, ("prompt",)),
        ("C", Change.CHANGED, ("label",)),
        ("FIX", Change.ADDED, ()),
        ("P1", Change.REMOVED, ()),
    ]
    prompt = difference.nodes[0]
    assert prompt.old is not None
    assert prompt.new is not None
    assert (prompt.old.template, prompt.new.template) == ("first", "first, and kindly")
    assert [(each.source, each.target, each.change) for each in difference.edges] == [
        ("C", "FIX", Change.ADDED),
        ("FIX", "P0", Change.ADDED),
        ("C", "P1", Change.REMOVED),
        ("P1", "P0", Change.REMOVED),
    ]
    assert difference.others == ()


def test_equal_tasks_do_not_differ() -> None:
    """However their diagrams are laid out; the other parts of a task are named."""
    assert not compare_tasks(make(OLD), make(OLD.replace("\n", "\n   %% note\n  ")))
    assert compare_tasks(make(OLD), make(OLD, variables={"a": 1})).others == ("variables",)
    assert compare_tasks(make(OLD), make(OLD, "first", "second", "unused")).others == ("prompts",)
    kind = compare_tasks(make(OLD), make(OLD.replace("{ok?}", "[ok?]"))).nodes
    assert [(each.node, each.details) for each in kind] == [("C", ("kind",))]


def test_both_versions_are_one_diagram_with_a_legend() -> None:
    """The new one, then what is gone; marks say the same as colours."""
    text = draw_difference(make(OLD), make(NEW, "first, and kindly", "second"))
    diagram = parse_diagram(text)

    assert text.startswith(NEW)
    assert {name: node.label.text for name, node in diagram.nodes.items()} == {
        "START": "START",
        "P0": "P0<br/>~ prompt",
        "C": "fine?<br/>~ label",
        "END": "END",
        "FIX": "Fix it +",
        "P1": "Retry x2 \N{MINUS SIGN}",
        "flow-legend-added": "+ added",
        "flow-legend-removed": "\N{MINUS SIGN} removed",
        "flow-legend-changed": "~ changed",
    }
    assert diagram.nodes["P1"].shape == "stadium"
    looks = [(edge.start, edge.end, edge.styles[0]) for edge in diagram.edges if edge.styles]
    assert looks == [
        ("C", "FIX", "stroke:#15803d"),
        ("FIX", "P0", "stroke:#15803d"),
        ("C", "P1", "stroke:#b91c1c"),
        ("P1", "P0", "stroke:#b91c1c"),
    ]
    assert [each.title.text for each in diagram.subgraphs] == ["Legend"]


def test_equal_versions_have_no_legend() -> None:
    """There is nothing to explain."""
    assert draw_difference(make(OLD), make(OLD)) == OLD


def survey_pairs() -> list[tuple[Task, Task]]:
    """Each diagram of the set and the one before it."""
    task, tasks = make(OLD), []
    for text in TEXTS:
        try:
            parse_diagram(text)
            tasks.append(attrs.evolve(task, flow_diagram=FlowDiagram(mermaid=text)))
        except ConfigurationError:
            continue
    return list(pairwise(tasks))


@pytest.mark.slow
@pytest.mark.samples
def test_any_two_diagrams_can_be_drawn_as_one() -> None:
    """Whatever is in them: what comes out is a diagram."""
    for old, new in sample(survey_pairs()):
        assert draw_difference(old, new)


@pytest.mark.node
def test_mermaid_reads_differences_as_we_do() -> None:
    """All of them."""
    texts = [draw_difference(old, new) for old, new in survey_pairs()]
    answers = ask(compose_oracle(), texts)
    assert not [
        text for text, each in zip(texts, answers, strict=True) if not agree(describe(text), each)
    ]
