"""What is looked for in a response is found as a whole, with its place, and in bounded time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import RequestError
from vibe_llms.flows.response_search import (
    find_json,
    find_member,
    find_pattern,
    find_words,
    is_alike,
    normalize,
    quote,
)
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.invocables import validator_process


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("It is Approved.", ["approved"], ["approved"]),
        ("It is unapproved.", ["approved"], []),
        ("try\n  again now", ["Try again"], ["try again"]),
        ("retry later", ["retry", "retry later"], ["retry later"]),
        ("C++ is good", ["c++"], ["c++"]),
        ("请重试一次", ["重试"], ["重试"]),
        ("STRASSE straße", ["Straße"], ["straße"]),
        ("a.b", ["a.b", "axb"], ["a.b"]),
        ("anything", ["", " "], []),
        ("ok", [], []),
    ],
)
def test_words_are_found_as_a_whole(text: str, words: list[str], found: list[str]) -> None:
    """Whatever their case, and the longer one where one is part of another."""
    assert [spot.word for spot in find_words(text, words)] == found


@pytest.mark.parametrize(
    ("text", "is_negated"),
    [
        ("It is not approved.", True),
        ("It isn\u2019t in any way approved.", True),
        ("non-approved", True),
        ("No: approved.", False),
        ("Not bad, approved.", False),
        ("It was not ready, but it is approved.", False),
        ("It was not ready but is approved.", False),
        ("It is not only approved, it is loved.", False),
        ("It is a knot, approved", False),
        ("It is approved. No, not approved!", False),
        ("Never approved; never will be approved.", True),
    ],
)
def test_what_its_clause_negates_is_marked(text: str, is_negated: bool) -> None:
    """A place that is not negated counts before those that are."""
    (spot,) = find_words(text, ["approved"])
    assert spot.is_negated is is_negated


@given(st.lists(st.sampled_from(["yes", "no", "may be", "maybe"]), min_size=1), st.data())
def test_every_word_that_is_there_is_found(said: list[str], data: st.DataObject) -> None:
    """With its last place, whichever others are looked for."""
    text = data.draw(st.sampled_from(["; ", ". ", ",\n"])).join(said)
    spots = {spot.word: spot for spot in find_words(text, ["Yes", "NO", "may be", "maybe"])}
    assert set(spots) == set(said)
    for word, spot in spots.items():
        assert text[spot.start : spot.end] == word
        assert not re.search(rf"\b{word}\b", text[spot.end :])


@given(st.text(max_size=200), st.lists(st.text(max_size=6), max_size=5))
def test_looking_for_words_takes_any_text(text: str, words: list[str]) -> None:
    """And finds only what was looked for."""
    wanted = {word.strip().lower() for word in words}
    assert {spot.word for spot in find_words(text, words)} <= wanted


def test_a_place_is_quoted_with_its_line() -> None:
    """And a little of what stands around it, in one line."""
    text = f"{'a' * 40}\nsaid  it\n{'b' * 40}"
    assert quote(text, 41, 45) == f"\u201c\u2026{'a' * 29} said it {'b' * 25}\u2026\u201d (line 2)"
    assert quote("short", 0, 5) == "\u201cshort\u201d (line 1)"
    assert quote("x" * 100, 0, 100) == f"\u201c{'x' * 60}\u2026\u201d (line 1)"


async def test_a_pattern_that_is_quick_tells_its_place() -> None:
    """It is searched for here."""
    assert await find_pattern("All good.\nScore: 8", r"Score: \d") == (
        "\u201cAll good. Score: 8\u201d (line 2)"
    )
    assert await find_pattern("Score: x", r"Score: \d") == ""


@pytest.mark.slow
async def test_another_pattern_is_searched_for_where_it_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search that takes too long is an error that names the pattern."""
    monkeypatch.setattr(validator_process, "VALIDATOR_SECONDS", 0.2)
    validator_process.dismiss()
    try:
        assert await find_pattern("abab", r"^(ab)+$") == "the response"
        assert await find_pattern("abc", r"^(ab)+$") == ""
        assert await find_pattern("x" * 5_000 + "7", r"x*\d") == "the response"
        with pytest.raises(
            RequestError, match=r"Cannot search for the pattern '\^\(a\+\)\+\$'"
        ) as caught:
            await find_pattern("a" * 40 + "b", "^(a+)+$")
        assert "keywords" in caught.value.remedy
    finally:
        validator_process.dismiss()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('So:\n```json\n{"a": 1}\n```\nDone.', {"a": 1}),
        ('I say {"a": 1}.', {"a": 1}),
        ("[1, 2]", [1, 2]),
        ("no JSON", ABSENT),
        ('{"a": 1} or {"a": 2}', ABSENT),
    ],
)
def test_json_is_found_where_it_is_clear(text: str, value: object) -> None:
    """Alone, fenced, or among prose; nothing is guessed."""
    assert find_json(text) == value


def test_of_several_values_the_one_that_fits_is_meant() -> None:
    """As an example before the answer does not."""
    assert find_json('{"x": 1} {"y": 2}', lambda value: "y" in value) == {"y": 2}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("review.scores.1", 8),
        ("review.ok", None),
        ("review.scores.2", ABSENT),
        ("review.scores.x", ABSENT),
        ("review.scores.1.a", ABSENT),
        ("nothing", ABSENT),
    ],
)
def test_a_member_is_found_by_its_path(path: str, value: object) -> None:
    """Through objects by names, and through arrays by places."""
    assert find_member({"review": {"scores": [7, 8], "ok": None}}, path) == value


@pytest.mark.parametrize(
    ("said", "expected", "is_so"),
    [
        ("Yes", "yes", True),
        ("7", 7, True),
        ("-7", -7, True),
        ("-7", 7, False),
        (".5", "5", False),
        ("**-7**.", "-7", True),
        ("- 7", "7", True),
        (7.0, 7, True),
        ("true", True, True),
        (1, True, False),
        (True, 1, False),
        ({"a": [1]}, {"a": [1]}, True),
        ("no", "yes", False),
        (None, "none", False),
    ],
)
def test_what_was_expected_may_be_written_otherwise(
    said: object, expected: object, is_so: bool
) -> None:
    """In capitals, or a number in quotes; but true is not 1."""
    assert is_alike(said, expected) is is_so


@given(st.text())
def test_normalizing_twice_changes_nothing(text: str) -> None:
    """So a label and a response meet, whichever is normalized how often."""
    assert normalize(normalize(text)) == normalize(text)
