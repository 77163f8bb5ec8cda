"""Diagrams are read with their places, and refused with reasons."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.mermaid import Span, parse_diagram
from vibe_llms.mermaid.cleaning import clean
from vibe_llms.mermaid.lexing import END, UNREADABLE, Lexer
from vibe_llms.mermaid.spans import SourceText
from vibe_llms.mermaid.yaml_scalars import write_number

TEXT = """---
title: A flow
---
%% a comment
flowchart LR
  A["say #quot;hi#quot;"] -->|yes| B{ok} & C:::hot
  subgraph S [Group]
    C -- no --> D
  end
"""


def cut(place: Span) -> str:
    """Returns what stands at a place of the text."""
    return TEXT[place.start : place.end]


def test_every_part_knows_its_place() -> None:
    """Places are those of what was written, also behind what Mermaid takes out before it reads."""
    diagram = parse_diagram(TEXT)

    first, second, third = diagram.edges
    assert diagram.title == "A flow"
    assert diagram.nodes["A"].label.text == 'say "hi"'
    assert str(diagram.nodes["A"].place) == "6:3"
    assert cut(diagram.nodes["A"].place) == 'A["say #quot;hi#quot;"]'
    assert cut(diagram.nodes["A"].label.place) == "say #quot;hi#quot;"
    assert [cut(use) for use in diagram.nodes["C"].uses] == ["C:::hot", "C"]
    assert cut(first.place).strip() == "-->|yes|"
    assert (first.end, second.end) == ("B", "C")
    assert cut(second.end_place) == "C:::hot"
    assert third.label is not None
    assert cut(third.label.place) == "no"
    assert cut(diagram.subgraphs[0].head) == "subgraph S [Group]"


def test_all_mistakes_come_at_once() -> None:
    """Reading goes on at the next line, and each mistake has its place, rule and remedy."""
    text = "graph TD\n A[foo(bar)]\n A@{ shape: diamnd }\n linkStyle 5 fill:red\n end\n"

    with pytest.raises(ConfigurationError) as caught:
        parse_diagram(text, "flow.mmd")

    findings = caught.value.findings
    assert [(each.line, each.column) for each in findings] == [(2, 7), (3, 3), (4, 12), (5, 2)]
    assert "between double quotes" in findings[0].message
    assert "did you mean 'diamond'?" in findings[1].message
    assert "call a node End" in findings[3].message


def test_an_open_bracket_is_reported_where_it_opens() -> None:
    """Not at the end of the text, where Mermaid sees it."""
    with pytest.raises(ConfigurationError) as caught:
        parse_diagram("graph TD\nA --> B[never\nC --> D\n")

    assert [(each.line, each.column) for each in caught.value.findings] == [(2, 8)]


WORDS = ["-->", "---", "-.", "==", "@{", "%%", "%%{", "subgraph ", "end", "direction TB", "style "]
PIECES = st.sampled_from(
    [*'ABvxoe1 \n;|"`[](){}<>@:&#%-=.~/?*,\\', *WORDS, "class ", "click ", "accDescr {", "call "]
)


@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=40).map("".join)))
def test_any_text_is_read_or_refused(body: str) -> None:
    """No text makes anything else happen than a diagram, or an error with places."""
    for text in (body, f"graph TD\n{body}", f"---\n{body}\n---\ngraph TD\nA@{{\n{body}}}"):
        findings: tuple[Finding, ...] = ()
        try:
            parse_diagram(text)
        except ConfigurationError as error:
            findings = error.findings

        assert all(finding.line and finding.column for finding in findings)


def count_steps(text: str) -> int:
    """Returns how many rules the lexer tries for a text."""
    source_text = SourceText(text)
    clean(source_text)
    lexer = Lexer(source_text.text)
    while lexer.read().kind not in (END, UNREADABLE):
        pass
    return lexer.steps


@pytest.mark.parametrize(
    "unit", ["A-->B\n", "A-->", " ", "\n", "A & ", "A[x]\n", "A-- t t -->", "A(- / -)\n", "a@"]
)
def test_steps_grow_as_the_text(unit: str) -> None:
    """A text of ten times the length takes about ten times the steps."""
    few, many = (count_steps("graph TD\n" + unit * times) for times in (100, 1_000))

    assert many <= 11 * few


@pytest.mark.parametrize("value", ["&a x", "*a", "!tag x", "? x"])
def test_yaml_that_no_diagram_has_is_refused_by_name(value: str) -> None:
    """Mermaid reads it; aliases could make large things of small ones, and all of it is rare."""
    for text in (f"graph TD\nA@{{\n label: {value}\n}}", f"---\ntitle: {value}\n---\ngraph TD\nA"):
        with pytest.raises(ConfigurationError, match="is not read in diagrams: quote it"):
            parse_diagram(text)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1e-6, "0.000001"),
        (1.5e-6, "0.0000015"),
        (1e-7, "1e-7"),
        (-2.5e-8, "-2.5e-8"),
        (1e21, "1e+21"),
        (0.00001234, "0.00001234"),
        (3.0, "3"),
    ],
)
def test_numbers_are_written_as_javascript_does(value: float, written: str) -> None:
    """As Node prints them: a number in an attribute becomes a label so."""
    assert write_number(value) == written


def test_a_node_that_is_called_end_is_told_what_to_be_called() -> None:
    """It is the first mistake of whoever writes START and END in small letters."""
    with pytest.raises(ConfigurationError) as caught:
        parse_diagram("graph TD\n start --> end", "flow.mmd")

    (finding,) = caught.value.findings
    assert (finding.line, finding.column) == (2, 12)
    assert "call it END" in finding.message
