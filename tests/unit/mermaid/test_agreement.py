"""Mermaid itself says what a diagram is."""

from __future__ import annotations

import random

import pytest

from strategies.diagrams import PIECES
from support.diagrams.mermaid_answers import read_answers
from support.diagrams.mermaid_cases import agree, ask, compose_oracle, describe
from support.diagrams.mermaid_generation import find_disagreements, generate
from support.diagrams.mermaid_texts import TEXTS
from vibe_llms.mermaid import Edge, Label, LabelKind, Node, compose_diagram
from vibe_llms.mermaid.shapes import BRACKETS


def test_every_text_has_an_answer() -> None:
    """What Mermaid said is stored for all diagrams of the set, in their order."""
    assert [answer["text"] for answer in read_answers()] == TEXTS


@pytest.mark.slow
def test_mermaid_and_we_agree() -> None:
    """Nodes, edges, labels, subgraphs and looks are the same, and so is what is refused."""
    answers = read_answers()

    different = [each["text"] for each in answers if not agree(describe(each["text"]), each)]

    assert len(answers) > 1_500
    assert not different


@pytest.mark.node
def test_the_answers_are_those_of_mermaid() -> None:
    """What is stored is what Mermaid says today."""
    answers = ask(compose_oracle(), TEXTS)

    assert all(
        agree(stored, answer) for stored, answer in zip(read_answers(), answers, strict=True)
    )


@pytest.mark.node
def test_mermaid_and_we_agree_on_what_nobody_thought_of() -> None:
    """On diagrams that are made at random, and on those of the set with slips in them."""
    assert not find_disagreements(generate(seed=1, count=3_000))


@pytest.mark.node
def test_mermaid_reads_what_we_write() -> None:
    """Labels of any characters, in all brackets and on edges, mean the same to both."""
    chance = random.Random(1)
    texts = []
    for _ in range(1_000):
        one, other = ("".join(chance.choices(PIECES, k=chance.randint(1, 6))) for _ in range(2))
        kind, shape = chance.choice(list(LabelKind)), chance.choice([*BRACKETS, "doc"])
        nodes = [Node(id="A", label=Label(one, kind), shape=shape), Node(id="B")]
        edges = [Edge(start="A", end="B", label=Label(other, kind))]
        texts.append(str(compose_diagram(nodes=nodes, edges=edges)))

    answers = ask(compose_oracle(), texts)

    assert all("diagram" in answer for answer in answers)
    assert all(agree(describe(text), answer) for text, answer in zip(texts, answers, strict=True))
