"""What became of a run is drawn into its diagram, which Mermaid still reads."""

from __future__ import annotations

import pytest

from support.diagrams.mermaid_cases import agree, ask, compose_oracle, describe
from support.diagrams.mermaid_texts import TEXTS
from support.flows.flow_courses import CourseWriter
from support.quality.properties import sample
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.flows.compiling import compile_flow
from vibe_llms.flows.drawing import annotate
from vibe_llms.flows.labelling import quote
from vibe_llms.mermaid import Diagram, parse_diagram

TEXT = """graph TD
    %% asks until it is good
    START([Begin]) --> P0[Ask]
    P0 --> COND{"Is it #quot;good#quot;?"}
    COND -->|success| END
    COND -- retry --> P0
    COND -->|error| HELP["`**Help**
me`"]
    linkStyle 3 stroke:red
    HELP --> END
"""


def tell() -> CourseWriter:
    """A run that goes round twice and is asking once more."""
    run = CourseWriter()
    run.visit("START", 0)
    for _ in range(2):
        run.visit("P0", 1, seconds=2.5, tokens=700, cost_cents=0.3)
        run.visit("COND", 3)
    run.begin("P0")
    return run


def survey_diagrams() -> list[tuple[str, Diagram]]:
    """All texts of the set that are diagrams."""
    found = []
    for text in TEXTS:
        try:
            found.append((text, parse_diagram(text)))
        except ConfigurationError:
            continue
    return found


def draw_all(diagrams: list[tuple[str, Diagram]]) -> list[tuple[Diagram, str]]:
    """Draws them, each with a run that visits everything twice."""
    drawn = []
    for text, diagram in diagrams:
        flow, run = compile_flow(diagram).flow, CourseWriter()
        for name in flow.nodes:
            taken = [edge.index for edge in flow.edges if edge.source == name]
            run.visit(name, *taken, seconds=1, tokens=100)
            run.visit(name, *taken, seconds=1, tokens=100)
        drawn.append((diagram, annotate(text, run.course)))
    return drawn


def test_a_diagram_tells_what_has_happened() -> None:
    """States are classes; visits, times, tokens, money are on nodes, counts on edges."""
    diagram = parse_diagram(annotate(TEXT, tell().course))

    assert {name: (node.label.text, node.classes) for name, node in diagram.nodes.items()} == {
        "START": ("Begin ✓", ("flow-done",)),
        "P0": ("Ask<br/>▸ ×3 · 5.0 s<br/>1.4k tokens · $0.006", ("flow-running",)),  # noqa: RUF001
        "COND": ('Is it "good"?<br/>✓ ×2', ("flow-done",)),  # noqa: RUF001
        "END": ("END", ("flow-unreached",)),
        "HELP": ("**Help**\nme", ("flow-unreached",)),
    }
    taken, not_taken = ("stroke-width:3.5px", "fill:none"), ("opacity:0.45", "fill:none")
    assert [(edge.label.text if edge.label else "", edge.styles) for edge in diagram.edges] == [
        ("", taken),
        ("×2", taken),  # noqa: RUF001
        ("success", not_taken),
        ("retry ×2", ("stroke:red", *taken)),  # noqa: RUF001
        ("error", not_taken),
        ("", not_taken),
    ]
    assert set(diagram.classes) == {"flow-done", "flow-running", "flow-unreached"}


def test_what_was_written_stays() -> None:
    """Only links get words; comments and layout are as they were."""
    lines = annotate(TEXT, tell().course).split("\n")

    changed = {
        '    P0 -->|"×2"| COND{"Is it #quot;good#quot;?"}',  # noqa: RUF001
        '    COND -- "retry ×2" --> P0',  # noqa: RUF001
    }
    written = TEXT.rstrip("\n").split("\n")
    assert [each in changed for each in lines[: len(written)]].count(True) == 2
    assert [each for each in lines[: len(written)] if each not in changed] == [
        each for each in written if each in lines
    ]


def test_looks_can_be_left_to_others() -> None:
    """Without styles there are classes, and nothing says what they look like."""
    text = annotate(TEXT, tell().course, {})
    assert "classDef" not in text
    assert "class START,COND flow-done" in text


@pytest.mark.slow
@pytest.mark.samples
def test_every_diagram_stays_the_diagram_that_it_was() -> None:
    """Nodes, shapes, labels and edges of each are the same, but for what is added."""
    for before, text in draw_all(sample(survey_diagrams())):
        after = parse_diagram(text)
        assert list(after.nodes) == list(before.nodes)
        assert [(e.start, e.end, e.type, e.stroke, e.length) for e in after.edges] == [
            (e.start, e.end, e.type, e.stroke, e.length) for e in before.edges
        ]
        for name, node in before.nodes.items():
            said = node.label.text.replace("\0", "\ufffd").replace("\x85", "…")  # as HTML has them
            assert after.nodes[name].label.text.startswith(said.replace("\n", "<br/>"))
            assert after.nodes[name].shape == node.shape
        for old, new in zip(before.edges, after.edges, strict=True):
            if old.label:
                assert new.label is not None
                assert new.label.text.startswith(old.label.text.replace("\n", "<br/>"))


@pytest.mark.node
def test_mermaid_reads_what_is_drawn_as_we_do() -> None:
    """All diagrams of the set, annotated."""
    texts = [text for _, text in draw_all(survey_diagrams())]
    answers = ask(compose_oracle(), texts)
    assert len(texts) > 1_000
    assert not [
        text for text, each in zip(texts, answers, strict=True) if not agree(describe(text), each)
    ]


@pytest.mark.parametrize("text", ['"', "`x`", "a\\b", "%%{init}%%", "#quot;", "}", '<b x="y">'])
def test_no_label_can_end_its_quotes(text: str) -> None:
    """Whatever stands in it."""
    diagram = parse_diagram(f'graph TD\nA@{{ label: "{quote(text)}" }}\nB["{quote(text)}"]')
    assert {node.label.text for node in diagram.nodes.values()} == {text}
