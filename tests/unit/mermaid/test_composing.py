"""A program makes a diagram of values, and the text says what these say."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given

from strategies.diagrams import parts
from support.diagrams.mermaid_answers import read_answers
from vibe_llms.exceptions import ConfigurationError, RequestError
from vibe_llms.mermaid import (
    Diagram,
    Edge,
    Label,
    LabelKind,
    Node,
    StyleClass,
    Subgraph,
    compose_diagram,
    parse_diagram,
)


def test_a_diagram_is_made_of_values() -> None:
    """Nodes, edges, subgraphs and classes become lines that a person can read and edit."""
    diagram = compose_diagram(
        nodes=[
            Node(id="A", label=Label('Say "hi"'), shape="stadium", classes=("hot",)),
            Node(id="B", label=Label("a <b> & c#35;"), shape="doc"),
            Node(id="C"),
        ],
        edges=[
            Edge(start="A", end="B", label=Label("yes")),
            Edge(start="B", end="C", type="arrow_open", stroke="dotted", length=2),
        ],
        subgraphs=[Subgraph(id="S", title=Label("Two words"), members=("B", "C"), direction="LR")],
        classes=[StyleClass(name="hot", styles=("fill:#f96", "stroke-dasharray:5, 5"))],
        direction="LR",
    )

    assert str(diagram) == (
        "flowchart LR\n"
        '  A(["Say #quot;hi#quot;"])\n'
        "  class A hot\n"
        '  B["a #lt;b#gt; #amp; c#35;35;"]@{ shape: "doc" }\n'
        "  C\n"
        '  subgraph S ["Two words"]\n'
        "    direction LR\n"
        "    B\n"
        "    C\n"
        "  end\n"
        '  A -->|"yes"| B\n'
        "  B -..- C\n"
        "  classDef hot fill:#f96,stroke-dasharray:5\\, 5\n"
    )
    assert diagram.nodes["A"].label.text == 'Say "hi"'
    assert diagram.classes["hot"].styles == ("fill:#f96", "stroke-dasharray:5, 5")


def compose_again(diagram: Diagram) -> Diagram:
    """Makes a diagram of the parts of another one."""
    return compose_diagram(
        nodes=diagram.nodes.values(),
        edges=diagram.edges,
        subgraphs=diagram.subgraphs,
        classes=diagram.classes.values(),
        direction=diagram.direction,
    )


@given(parts())
def test_parts_are_read_as_they_were_written(
    drawn: tuple[list[Node], list[Edge], list[Subgraph]],
) -> None:
    """Whatever labels say, the text says the same, and composing it again changes nothing."""
    nodes, edges, subgraphs = drawn
    diagram = compose_diagram(nodes=nodes, edges=edges, subgraphs=subgraphs)

    assert list(diagram.nodes.values()) == nodes
    assert [attrs.evolve(edge, id="", has_own_id=False) for edge in diagram.edges] == [
        attrs.evolve(edge, id="", has_own_id=False) for edge in edges
    ]
    assert sorted(diagram.subgraphs, key=lambda each: each.id) == subgraphs
    assert str(compose_again(diagram)) == str(diagram)


@pytest.mark.slow
def test_what_was_read_can_be_composed() -> None:
    """Nodes and edges of nearly any diagram can be put into another one, or are refused.

    Refused are ids that are keywords before a space, and texts that stand in no text, as of [].
    """
    texts = [answer["text"] for answer in read_answers() if "diagram" in answer]
    refused = []
    for diagram in map(parse_diagram, texts):
        try:
            composed = compose_again(diagram)
        except (RequestError, ConfigurationError):
            refused.append(diagram.text)
        else:
            assert composed.classes == diagram.classes
            assert composed.nodes.keys() == diagram.nodes.keys()

    assert len(refused) < 20


def test_what_cannot_be_said_is_refused() -> None:
    """A node whose id is a keyword would vanish, and is named instead."""
    with pytest.raises(RequestError, match="'click'"):
        compose_diagram(
            nodes=[Node(id="click", label=Label("x", LabelKind.TEXT), shape="square")],
            edges=[Edge(start="click", end="B")],
        )
