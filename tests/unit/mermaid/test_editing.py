"""An altered diagram says what it was altered to, and keeps all else as it was written."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.diagrams import LABELS, SHAPES, TEXTS
from support.diagrams.mermaid_answers import read_answers
from vibe_llms.exceptions import ConfigurationError, RequestError, UnknownNameError
from vibe_llms.mermaid import (
    Diagram,
    Edge,
    Label,
    LabelKind,
    Node,
    add_classes,
    add_edge,
    add_node,
    parse_diagram,
    remove_edge,
    remove_node,
    rename_node,
    set_edge_label,
    set_label,
    set_shape,
)

TEXT = "graph TD\n %% comment\n  A -->|x| B\n  subgraph s;C;end"

FLOW = """\
---
title: A flow
---
%% where it begins
flowchart LR
  START --> A["Ask"]  -->  B{ok?}
  %% how it goes on
  B -- yes --> END; B -- no --> C & D
  subgraph S [Again]
    %% inside
    C --> D:::hot
  end
  D --> A
  class A,B hot;
  style C fill:#f96
  linkStyle 0,6 stroke:#f00
  click C "https://example.org" "more"
"""


def edit(text: str, *changes: tuple[str, str]) -> str:
    """Returns a text with changes of which each is possible at one place."""
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def test_classes_are_added_behind_what_was_written() -> None:
    """Nodes and subgraphs get the class, and the text before it is untouched."""
    altered = add_classes(
        parse_diagram(TEXT), {"done": "fill:#9f6"}, {"done": ["A", "s"], "no": []}
    )

    assert str(altered).startswith(TEXT)
    assert altered.classes["done"].styles == ("fill:#9f6",)
    assert altered.nodes["A"].classes == ("done",)
    assert altered.nodes["B"].classes == ()
    assert altered.subgraphs[0].classes == ("done",)
    assert [edge.id for edge in altered.edges] == ["L_A_B_0"]


def test_a_style_that_mermaid_does_not_read_is_refused() -> None:
    """A diagram never becomes one that cannot be drawn."""
    with pytest.raises(ConfigurationError):
        add_classes(parse_diagram(TEXT), {"done": "fill:rgb(1,2,3)"}, {})


def test_equal_diagrams_say_the_same() -> None:
    """Layout, comments and places take no part in it, all else does."""
    one = parse_diagram("graph TD\nA[x]-->B")

    assert one == parse_diagram("flowchart TB\n %% words\n A[x]\n A --> B\n")
    assert one != parse_diagram("graph TD\nA[y]-->B")
    assert one != parse_diagram("graph LR\nA[x]-->B")


def test_a_label_changes_where_it_stands() -> None:
    """Between its brackets; a node without any gets them where it is named first."""
    diagram = parse_diagram(FLOW)

    assert str(set_label(diagram, "A", 'Say "a"')) == edit(
        FLOW, ('["Ask"]', '["Say #quot;a#quot;"]')
    )
    assert str(set_label(diagram, "B", "fine?")) == edit(FLOW, ("{ok?}", '{"fine?"}'))
    assert str(set_label(diagram, "C", "see")) == edit(FLOW, ("no --> C &", 'no --> C["see"] &'))


def test_a_shape_changes_where_it_stands() -> None:
    """The label stays, in other brackets or with attributes behind them."""
    diagram = parse_diagram(FLOW)

    assert str(set_shape(diagram, "A", "stadium")) == edit(FLOW, ('["Ask"]', '(["Ask"])'))
    assert str(set_shape(diagram, "B", "doc")) == edit(FLOW, ("{ok?}", '{ok?}@{ shape: "doc" }'))
    with pytest.raises(UnknownNameError, match="did you mean 'stadium'"):
        set_shape(diagram, "A", "stadum")


def test_a_new_node_stands_behind_all_others() -> None:
    """At the end of the diagram, or of a subgraph."""
    diagram = parse_diagram(FLOW)
    node = Node(id="E", label=Label("new"), shape="round")

    assert str(add_node(diagram, node)) == f'{FLOW}  E("new")\n'
    assert str(add_node(diagram, node, subgraph="S")) == edit(
        FLOW, ("  end\n", '    E("new")\n  end\n')
    )
    assert "C;E\nend" not in str(add_node(parse_diagram(TEXT), Node(id="E"), subgraph="s"))
    with pytest.raises(RequestError, match="already"):
        add_node(diagram, Node(id="A"))


def test_a_renamed_node_is_renamed_everywhere() -> None:
    """Also in lists; without a label it shows its new name."""
    renamed = rename_node(parse_diagram(FLOW), "C", "Look")

    assert str(renamed) == edit(
        FLOW,
        ("no --> C &", "no --> Look &"),
        ("    C --> D", "    Look --> D"),
        ("style C", "style Look"),
        ("click C", "click Look"),
    )
    assert renamed.nodes["Look"].label.text == "Look"
    assert renamed.tooltips == {"Look": "more"}


def test_a_node_goes_with_its_edges() -> None:
    """What is left of its chains stays, and other links keep their styles under new numbers."""
    altered = remove_node(parse_diagram(FLOW), "C")

    assert str(altered) == edit(
        FLOW,
        ("C & D", "D"),
        ("    C --> D:::hot", "    D:::hot"),
        ("  style C fill:#f96\n", ""),
        ("0,6", "0,4"),
        ('  click C "https://example.org" "more"\n', ""),
    )
    assert altered.edges[4].styles == ("stroke:#f00", "fill:none")


def test_an_edge_goes_alone() -> None:
    """A chain is broken, and what one link has drawn together is written apart."""
    diagram = parse_diagram(FLOW)

    assert str(remove_edge(diagram, "L_A_B_0")) == edit(
        FLOW, ('A["Ask"]  -->  B{ok?}', 'A["Ask"]\n  B{ok?}'), ("0,6", "0,5")
    )
    assert str(remove_edge(diagram, "L_B_C_0")) == edit(
        FLOW, ("B -- no --> C & D", "B -->|no| D"), ("0,6", "0,5")
    )
    with pytest.raises(UnknownNameError):
        remove_edge(diagram, "L_A_C_0")


def test_an_edge_gets_a_label() -> None:
    """In its place, or apart from those that its link has drawn with it."""
    diagram = parse_diagram(FLOW)

    assert str(set_edge_label(diagram, "L_D_A_0", "again|")) == edit(
        FLOW, ("  D --> A", '  D -->|"again|"| A')
    )
    assert str(set_edge_label(diagram, "L_B_END_0", "")) == edit(FLOW, ("-- yes -->", "-->"))
    apart = str(set_edge_label(diagram, "L_B_D_0", "?"))
    assert apart == edit(FLOW, ("B -- no --> C & D", 'B -->|no| C\n  B -->|"?"| D'))


def test_an_edge_is_added_with_its_looks() -> None:
    """It is the last one, between nodes that are there."""
    diagram = parse_diagram(FLOW)
    edge = Edge(
        start="A", end="B", stroke="thick", label=Label("x"), styles=("stroke:#00f", "fill:none")
    )

    altered = add_edge(diagram, edge)

    assert str(altered) == FLOW + '  A ==>|"x"| B\n  linkStyle 7 stroke:#00f,fill:none\n'
    assert altered.edges[-1].id == "L_A_B_2"
    with pytest.raises(UnknownNameError):
        add_edge(diagram, Edge(start="A", end="Z"))


def test_what_would_change_more_is_refused() -> None:
    """An id that Mermaid takes for a keyword, or a text that swallows what is written behind it."""
    with pytest.raises(RequestError, match="nothing else changes"):
        rename_node(parse_diagram(FLOW), "A", "end")
    with pytest.raises(RequestError, match="nothing else changes"):
        add_node(parse_diagram("graph TD\naccDescr { open\nA"), Node(id="B"))
    with pytest.raises(RequestError, match="is a subgraph"):
        remove_node(parse_diagram("graph TD\nA --> s\nsubgraph s\nB\nend"), "s")


READ = [
    diagram
    for answer in read_answers()
    if "diagram" in answer and len(answer["text"]) < 2_000
    for diagram in (parse_diagram(answer["text"]),)
    if diagram.nodes
]


def survey_comments(diagram: Diagram) -> list[str]:
    """Returns the lines of a diagram that are comments."""
    lines = (line.strip() for line in diagram.text.splitlines())
    return [line for line in lines if line.startswith("%%") and line != "%%"]


@given(st.sampled_from(READ), st.data())
def test_an_edit_changes_what_it_says_and_nothing_else(
    diagram: Diagram, data: st.DataObject
) -> None:
    """Of any diagram that Mermaid reads; where that cannot be, the edit is refused."""
    node = data.draw(st.sampled_from(list(diagram.nodes)))
    text, shape = data.draw(TEXTS), data.draw(SHAPES)
    try:
        labelled = set_label(diagram, node, text)
        shaped = set_shape(diagram, node, shape)
        renamed = rename_node(diagram, node, "other")
        removed = remove_node(diagram, node)
    except RequestError:
        return

    others = {id_: each for id_, each in diagram.nodes.items() if id_ != node}
    label = Label(text)
    assert labelled.nodes[node].label == label
    assert labelled.edges == shaped.edges == diagram.edges
    assert shaped.nodes == {**others, node: attrs.evolve(diagram.nodes[node], shape=shape)}
    assert {id_: each for id_, each in labelled.nodes.items() if id_ != node} == others
    assert renamed.nodes.keys() == {*others, "other"}
    assert [edge.start for edge in renamed.edges] == [
        "other" if edge.start == node else edge.start for edge in diagram.edges
    ]
    assert removed.nodes == others
    assert len(removed.edges) == len(
        [edge for edge in diagram.edges if node not in (edge.start, edge.end)]
    )
    for altered in (labelled, shaped, renamed, removed):
        assert survey_comments(altered) == survey_comments(diagram)


@given(st.sampled_from([each for each in READ if each.edges]), LABELS, st.data())
def test_edges_are_edited_one_by_one(diagram: Diagram, label: Label, data: st.DataObject) -> None:
    """Whatever has drawn an edge, it is labelled or removed alone; an added one can be removed."""
    edge = data.draw(st.sampled_from(diagram.edges))
    label = Label(label.text, LabelKind.STRING)
    try:
        labelled = set_edge_label(diagram, edge.id, label.text)
        removed = remove_edge(diagram, edge.id)
        added = add_edge(diagram, Edge(start=edge.end, end=edge.start, label=label))
    except RequestError:
        return

    number = [each.id for each in diagram.edges].index(edge.id)
    wanted = list(diagram.edges)
    wanted[number] = attrs.evolve(wanted[number], label=label if label.text else None)
    assert list(labelled.edges) == wanted
    assert labelled.nodes == removed.nodes == diagram.nodes
    assert [(each.start, each.end, each.label) for each in removed.edges] == [
        (each.start, each.end, each.label)
        for place, each in enumerate(diagram.edges)
        if place != number
    ]
    assert added.edges[:-1] == diagram.edges
    assert remove_edge(added, added.edges[-1].id) == diagram


@given(st.sampled_from(READ), st.data())
def test_a_name_can_be_taken_back(diagram: Diagram, data: st.DataObject) -> None:
    """A node that was renamed there and back stands in the text as before, to the letter."""
    node = data.draw(st.sampled_from(list(diagram.nodes)))
    try:
        there = rename_node(diagram, node, "other")
        back = rename_node(there, "other", node)
    except RequestError:
        return

    assert str(back) == str(diagram)
    assert back == diagram
