"""Splitting of texts: at headings and paragraphs, nothing lost, at most the length of a passage."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as some

from vibe_llms.retrieval.passages import PASSAGE_CHARACTERS, Passage, split_text

MARKDOWN = """Before any title.

# Bridges

A bridge crosses a river.

A second paragraph.

## Inspection ##

Each spring.
"""

RST = """Bridges
=======

A bridge crosses a river.

Inspection
----------

Each spring.
"""


def test_headings_of_markdown_begin_passages() -> None:
    pieces = list(split_text(MARKDOWN))

    assert [(piece.line, piece.heading) for piece in pieces] == [
        (1, ""),
        (5, "Bridges"),
        (11, "Inspection"),
    ]
    assert pieces[1].text == "A bridge crosses a river.\n\nA second paragraph."


def test_equal_headings_begin_passages_of_their_own() -> None:
    assert [piece.text for piece in split_text("# A\n\none\n\n# A\n\ntwo")] == ["one", "two"]


def test_headings_of_restructuredtext_begin_passages() -> None:
    assert [tuple(piece) for piece in split_text(RST)] == [
        (4, "Bridges", "A bridge crosses a river."),
        (9, "Inspection", "Each spring."),
    ]


def test_code_is_not_cut_at_its_blank_lines_and_has_no_headings() -> None:
    code = "```\n# no title\n\nprint()\n```"

    (piece,) = split_text(f"# Title\n\n{code}")

    assert piece.text == code
    assert piece.heading == "Title"


def test_a_long_paragraph_is_cut_at_the_end_of_a_sentence() -> None:
    sentence = "The bridge is closed on Sundays. "
    pieces = list(split_text(sentence * 100))

    assert len(pieces) > 2
    assert all(piece.text.endswith("Sundays.") for piece in pieces)


def test_lines_of_cut_paragraphs_are_counted() -> None:
    text = "\n".join(f"{number} " + "x" * 300 for number in range(1, 30))

    for piece in split_text(text):
        assert piece.text.startswith(f"{piece.line} ")


@given(some.text(alphabet="ab #`~=-.\n\t。", max_size=6_000))
def test_nothing_is_lost_but_headings_and_space(text: str) -> None:
    pieces = list(split_text(text))

    assert all(len(piece.text) <= PASSAGE_CHARACTERS for piece in pieces)
    assert all(piece.text.strip() for piece in pieces)
    letters = "".join(piece.text for piece in pieces)
    for letter in "。":  # never part of a heading's marks
        headings = sum(line.count(letter) for line in text.splitlines() if line.lstrip()[:1] == "#")
        assert letters.count(letter) >= text.count(letter) - headings - text.count("===")


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_one_line_of_any_length_is_cut(size: int) -> None:
    pieces = list(split_text("x" * size))

    assert sum(len(piece.text) for piece in pieces) == size


def test_the_digest_depends_on_the_text_and_not_on_the_position() -> None:
    one, two = Passage(position=1, text="a"), Passage(position=2, text="a")

    assert one.digest == two.digest
    assert one.digest != Passage(position=1, text="b").digest
    assert one.digest != Passage(position=1, heading="h", text="a").digest


@pytest.mark.parametrize("end", ["x", "#x", ""])
def test_headings_take_linear_time(end: str) -> None:
    started = time.perf_counter()
    list(split_text(f"# a{' # ' * 100_000}{' ' * 200_000}{end}"))
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize(
    ("line", "title"),
    [("# A", "A"), ("## A b ##  ", "A b"), ("# C#", "C"), ("# #", "#"), ("###### \tA", "A")],
)
def test_titles_are_without_their_marks(line: str, title: str) -> None:
    (piece,) = split_text(f"{line}\n\ntext")
    assert (piece.heading, piece.text) == (title, "text")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_like_in_an_editor(end: str) -> None:
    pieces = list(split_text(f"# A{end}a\fb\u2028c\x85d{end}{end}# B{end}e"))
    assert [(piece.line, piece.heading) for piece in pieces] == [(2, "A"), (5, "B")]


@pytest.mark.parametrize("text", ["# What is a bridge?", "A bridge\n========\n", "\n# A\n\n## B\n"])
def test_a_text_of_headings_alone_is_found(text: str) -> None:
    (piece,) = split_text(text)
    assert piece.text.strip() == text.strip()


@pytest.mark.parametrize("text", ["", "\n \n\t"])
def test_a_blank_text_has_no_pieces(text: str) -> None:
    assert list(split_text(text)) == []
