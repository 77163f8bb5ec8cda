"""Sentences of a text that arrives in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.messages.sentences import SentenceSplitter

TEXT = 'The bridge is closed. "Why is that?" he asked.\n\nIt costs 3.5 million! Really.'


def split(*pieces: str) -> list[str]:
    """Splits a text."""
    splitter = SentenceSplitter()
    found = [sentence for piece in pieces for sentence in splitter.feed(piece)]
    return found + splitter.finish()


@pytest.mark.parametrize("pieces", [(TEXT,), tuple(TEXT)])
def test_sentences_do_not_depend_on_the_pieces(pieces: tuple[str, ...]) -> None:
    assert split(*pieces) == [
        "The bridge is closed. ",
        '"Why is that?" he asked.\n\n',
        "It costs 3.5 million! ",
        "Really.",
    ]


def test_a_sentence_is_returned_when_the_next_one_begins() -> None:
    splitter = SentenceSplitter()
    assert splitter.feed("The bridge is closed. ") == []
    assert splitter.feed("T") == ["The bridge is closed. "]


def test_other_scripts_end_sentences_without_spaces() -> None:
    sentence = "\u6a4b\u306f\u9589\u9396\u3055\u308c\u3066\u3044\u307e\u3059" * 2 + "\u3002"
    assert split(sentence * 2) == [sentence] * 2


def test_a_text_without_ends_is_cut() -> None:
    assert [len(each) for each in split("word " * 500)] == [1_000, 1_000, 500]
    assert [len(each) for each in split("x" * 1_500)] == [1_000, 500]


def test_blank_texts_have_no_sentences() -> None:
    assert split(" ", "\n\n", "  ") == []


@given(st.lists(st.text(alphabet="ab .!?\n\"'\u3002", max_size=40)))
def test_sentences_join_to_the_text(pieces: list[str]) -> None:
    assert "".join(split(*pieces)).split() == "".join(pieces).split()
