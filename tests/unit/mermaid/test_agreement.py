"""Mermaid itself says what a diagram is."""

from __future__ import annotations

import pytest

from mermaid_answers import read_answers
from mermaid_cases import agree, ask, compose_oracle, describe
from mermaid_texts import TEXTS


def test_every_text_has_an_answer() -> None:
    """What Mermaid said is stored for all diagrams of the set, in their order."""
    assert [answer["text"] for answer in read_answers()] == TEXTS


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
