"""Patterns from files: what can be counted is taken, and everything else refused in words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.foundation.linear_regex import NAME_CHARACTERS, PatternError, compile_pattern

PIECES = ["a", "b", ".", "[ab]", "[^a]", r"\d", r"\.", "(a|b)", "(?:ab|a)", "(a)?", "^", "$", r"\b"]


@pytest.mark.parametrize(
    "text",
    [
        "^(a+)+$",
        "(a*)*b",
        "^(a|a)*$",
        "(?:a{1,9}){1,9}b",
        "^(.)\\1$",
        "(?=a)a",
        "(?P<name>a)",
        "a?" * 40 + "b",
        "(a|a)" * 30,
        ".*a.*b.*c",
        "(" * 50 + ")" * 50,
        "(" * 5_000,
        "a" * 5_000,
        "a{99999999999999999999}",
        "[",
        "a)",
    ],
)
def test_what_could_take_for_ever_is_refused(text: str) -> None:
    """Before it is searched in anything, with the piece that does it where there is one."""
    with pytest.raises(PatternError):
        compile_pattern(text)


@pytest.mark.parametrize(
    ("text", "name", "is_found"),
    [
        (r"^claude-(fable|opus)-([5-9]|[1-9]\d)(-|$)", "claude-opus-5", True),
        (r"(?i)^smollm2(-135m.*)?$", "SmolLM2-135M-Instruct", True),
        (r"^gemini-[\d.]+-flash", "gemini-2.5-flash", True),
        (r"mini.*\d{4}-\d{2}", "gpt-5-mini-2025-08", True),
        ("a|^b", "cb", False),
        ("^a|b", "cb", True),
        ("[]a]$", "x]", True),
        ("^.*x.*y.*$", "a" * 10_000, False),
    ],
)
def test_usual_patterns_match_as_they_always_did(text: str, name: str, is_found: bool) -> None:
    """Of a name beyond all measure nothing is found where looking would take long."""
    assert compile_pattern(text).is_found_in(name) is is_found


@given(
    text=st.lists(
        st.tuples(
            st.sampled_from(PIECES), st.sampled_from(["", "", "?", "*", "+", "{2}", "{1,3}?"])
        ),
        max_size=8,
    ).map(lambda pieces: "".join(piece + sign for piece, sign in pieces)),
    name=st.text("ab.1-", max_size=12),
)
def test_what_is_taken_means_what_python_means(text: str, name: str) -> None:
    """The pattern is Python's; only which ones there may be is ours."""
    try:
        pattern = compile_pattern(text)
    except PatternError:
        return

    assert pattern.is_found_in(name) is (re.search(text, name) is not None)


def test_the_worst_that_is_taken_ends() -> None:
    """Three repetitions, none of which finds its end, in the longest usual name."""
    pattern = compile_pattern("a*a*b")

    assert not pattern.is_found_in("a" * NAME_CHARACTERS)
