"""A word list finds whole words and phrases in any case."""

from __future__ import annotations

from asyncio import run
from collections.abc import Callable
from functools import partial

import pytest

from support.guards.guarding import activate, mark
from support.quality.working import LINEAR, find_growth, measure
from vibe_llms.exceptions import ConfigurationError, GuardError
from vibe_llms.guards.shipped.words import WordGuard, WordSettings
from vibe_llms.plugins.specification.guards import Inspection

GUARD = WordGuard(WordSettings(words=("walnut", "Project Blue Bird", "project", "straße", "café")))


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("A WALNUT, two walnuts", "A [word removed], two walnuts"),
        ("project  blue-bird!", "[word removed]!"),
        ("Project Blue Whale", "[word removed] Blue Whale"),
        ("project, project blue bird", "[word removed], [word removed]"),
        ("STRASSE", "[word removed]"),
        ("wal nut", "wal nut"),
        ("a_walnut_tree project_blue_bird", "a_[word removed]_tree [word removed]"),
        ("\uff57\uff41lnut, Cafe\u0301!", "[word removed], [word removed]!"),
        ("cafe", "cafe"),
    ],
)
async def test_whole_words_and_the_longest_phrases_are_replaced(text: str, marked: str) -> None:
    assert await mark(GUARD, text) == marked


async def test_a_list_may_refuse() -> None:
    guard = activate(WordGuard(WordSettings(words=("walnut",), action="refuse")))

    with pytest.raises(GuardError, match="a word of its list"):
        await guard.examine(Inspection(part="answer", texts=("fine", "a walnut")))


@pytest.mark.parametrize(("words", "problem"), [((), "is empty"), (("ok", "?!"), "Entry 2")])
def test_an_entry_without_letters_is_a_mistake(words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        WordSettings(words=words)


@pytest.mark.slow
def test_the_search_is_linear_in_the_text() -> None:
    def produce(count: int) -> Callable[[], object]:
        inspection = Inspection(part="request", texts=("project blue " * count,))
        return lambda: run(GUARD.examine(inspection))

    lines, _ = find_growth(produce, 200)

    assert lines <= LINEAR


def test_a_long_list_costs_no_more_than_a_short_one() -> None:
    """Words are looked up, not tried one after the other."""
    long = WordGuard(WordSettings(words=tuple(f"word{number}" for number in range(500))))
    short = WordGuard(WordSettings(words=("word1",)))

    lines = [measure(partial(_find_all, guard))[0] for guard in (long, short)]

    assert lines[0] == lines[1]
    assert [*long._find("a word17 b", 0)] == [(2, 8)]


def _find_all(guard: WordGuard) -> None:
    assert not [*guard._find("some words of a text " * 5, 0)]
