"""A diagram becomes a flow: kinds by id and shape, edges by their labels."""

from __future__ import annotations

import pytest

from vibe_llms.flows.compiling import Compilation, compile_flow, read_bound
from vibe_llms.flows.faults import Severity
from vibe_llms.flows.graphs import EdgeKind, NodeKind
from vibe_llms.mermaid import parse_diagram


def compile_text(text: str, prompts: int | None = None) -> Compilation:
    """Compiles a diagram as it is written."""
    return compile_flow(parse_diagram(text), prompts=prompts)


def test_the_diagram_of_the_requirements_is_a_flow() -> None:
    """Start, prompt, a choice of two, end."""
    compilation = compile_text(
        "graph TD\n    START --> P0\n    P0 --> COND{Check}\n"
        "    COND -->|success| END\n    COND -->|retry| P0",
        prompts=1,
    )
    assert compilation.faults == ()
    flow = compilation.flow
    assert {name: node.kind for name, node in flow.nodes.items()} == {
        "START": NodeKind.START,
        "P0": NodeKind.PROMPT,
        "COND": NodeKind.CONDITION,
        "END": NodeKind.END,
    }
    assert [(edge.label, edge.target) for edge in flow.exits["COND"].choices] == [
        ("success", "END"),
        ("retry", "P0"),
    ]
    assert (flow.nodes["COND"].line, flow.nodes["COND"].column) == (3, 12)


def test_shapes_say_what_nodes_do() -> None:
    """By brackets and by name alike."""
    flow = compile_text(
        "flowchart LR\nSTART --> L([Refine x3]) --> S[[sub]] --> T[/tool/] --> G[step] --> END\n"
        "C@{ shape: decision } --> D@{ shape: pill, label: 'at most 2 times' } --> F(round)\n"
        "START --> C\nF --> END"
    ).flow
    kinds = {name: str(node.kind) for name, node in flow.nodes.items()}
    assert kinds == {
        "START": "start",
        "L": "loop",
        "S": "subflow",
        "T": "tool",
        "G": "step",
        "END": "end",
        "C": "condition",
        "D": "loop",
        "F": "step",
    }
    assert (flow.nodes["L"].bound, flow.nodes["D"].bound) == (3, 2)


def test_labels_say_when_edges_are_taken() -> None:
    """An edge without a label is the default where others are chosen, and else always taken."""
    flow = compile_text(
        "graph TD\nSTART --> A & B\nA -->|yes| END\nA --> B\nA -->|on error| C\nB -->|LIMIT| C\n"
        "B --> END\nC --> END\nA ~~~ C"
    ).flow
    kinds = [(edge.source, edge.target, edge.kind) for edge in flow.edges]
    assert kinds == [
        ("START", "A", EdgeKind.PLAIN),
        ("START", "B", EdgeKind.PLAIN),
        ("A", "END", EdgeKind.CHOICE),
        ("A", "B", EdgeKind.DEFAULT),
        ("A", "C", EdgeKind.ERROR),
        ("B", "C", EdgeKind.LIMIT),
        ("B", "END", EdgeKind.PLAIN),
        ("C", "END", EdgeKind.PLAIN),
    ]


@pytest.mark.parametrize(
    ("line", "place", "words"),
    [
        ("A <--> END", (3, 3), "one direction"),
        ("A --- END", (3, 3), "has no arrow; it is read as A to END"),
        ("A --> START", (3, 3), "leads back to START"),
        ("END --> A", (3, 5), "leaves END"),
        ("A --> P3 --> END", (3, 7), "a prompt that does not exist: the last prompt is P1"),
        ("subgraph G\nX\nend\nA --> G", (6, 3), "G is a subgraph"),
        ("A -->|no| B --> END\nA -->|else| END\nA --> END", (2, 13), "A has 3 edges without"),
    ],
)
def test_what_means_nothing_is_found_with_its_place(
    line: str, place: tuple[int, int], words: str
) -> None:
    """And says what to write."""
    compilation = compile_text(f"graph TD\nSTART --> A --> END\n{line}", prompts=2)
    found = [each for each in compilation.faults if words in each.message]
    assert (found[0].line, found[0].column) == place
    assert (found[0].weight is Severity.HARMLESS) == ("no arrow" in words)


def test_a_flow_begins_and_ends_somewhere() -> None:
    """With the word that was meant."""
    messages = [each.message for each in compile_text("graph TD\nStart --> Done").faults]
    assert messages == [
        "The node START is missing: a flow must begin somewhere; did you mean 'Start'?",
        "The node END is missing: a flow must end somewhere.",
    ]


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("Refine \N{MULTIPLICATION SIGN}3", 3),
        ("Refine x 12", 12),
        ("*4", 4),
        ("max 5", 5),
        ("Maximum 6 rounds", 6),
        ("7 times", 7),
        ("2x", 2),
        ("Refine", None),
        ("Step 3", None),
        ("box3", None),
    ],
)
def test_a_loop_says_its_bound(text: str, bound: int | None) -> None:
    """In the ways that people write it."""
    assert read_bound(text) == bound
