"""Streaming Markdown is parted into final blocks and a rest."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.interfaces.cli.chat.blocks import BlockSplitter

_LINES = st.sampled_from(
    [
        "",
        "A paragraph.",
        "日本語の段落",
        "- item",
        "  more of it",
        "1. first",
        "2. second",
        "# Heading",
        "```python",
        "```",
        "~~~",
        "    code",
        "> quote",
        "| a | b |",
        "|---|---|",
        "---",
        "<b>not markup</b>",
    ]
)
_TEXTS = st.lists(_LINES, max_size=14).map("\n".join)


def _split(text: str, cuts: list[int]) -> tuple[list[str], str]:
    splitter = BlockSplitter()
    places = sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    blocks: list[str] = []
    for start, end in itertools.pairwise(places):
        blocks += splitter.feed(text[start:end])
    return blocks, splitter.finish()


@given(_TEXTS, st.lists(st.integers(0, 120), max_size=8))
def test_nothing_is_lost_and_the_cuts_make_no_difference(text: str, cuts: list[int]) -> None:
    """All blocks and the rest, joined, are the text, however it was cut on its way."""
    blocks, rest = _split(text, cuts)

    assert "".join(blocks) + rest == text
    assert (blocks, rest) == _split(text, list(range(len(text))))


def test_a_block_is_final_when_a_line_of_the_next_is_whole() -> None:
    """While the line after a block is not whole, it might still belong to it."""
    splitter = BlockSplitter()

    assert splitter.feed("1. one\n\n2") == []
    assert splitter.feed(". two\n") == []
    assert splitter.feed("\nAfter the list.\n") == ["1. one\n\n2. two\n\n"]
    assert splitter.rest == "After the list.\n"


def test_an_open_block_of_code_is_never_parted() -> None:
    """What looks like Markdown inside code is code."""
    splitter = BlockSplitter()

    blocks = splitter.feed("Look:\n\n````\n# no heading\n\n- no list\n```\n")

    assert blocks == ["Look:\n\n"]
    assert splitter.feed("````\n\nDone.\n") == ["````\n# no heading\n\n- no list\n```\n````\n\n"]


def test_long_code_is_parsed_only_where_it_begins_and_ends() -> None:
    """The work for a line of code does not grow with the code before it."""
    splitter = BlockSplitter()
    splitter.feed("```\n")
    parses = []
    parser = splitter._parser
    assert parser is not None
    splitter._parser = type(
        "Counting", (), {"parse": lambda self, text: parses.append(text) or parser.parse(text)}
    )()  # type: ignore[assignment]

    splitter.feed("x = 1\n" * 500)

    assert parses == []
