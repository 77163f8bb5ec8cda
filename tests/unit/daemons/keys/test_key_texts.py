"""The text of a key is found by what is public, and a slip is told from a stranger."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.keys.texts import (
    LENGTH,
    compute_digest,
    extract_identity,
    find_typo,
    generate_key,
    is_identity,
    matches,
)

LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"


def test_no_two_keys_are_alike_and_each_fits_its_digest() -> None:
    """Each has a public part by which it is found, and nothing wrong with it."""
    texts = [generate_key() for _ in range(200)]

    assert len({extract_identity(text) for text in texts}) == 200
    assert all(is_identity(extract_identity(text)) for text in texts)
    assert {len(text) for text in texts} == {LENGTH}
    assert not any(map(find_typo, texts))
    assert all(matches(text, compute_digest(text)) for text in texts)
    assert not matches(texts[0], compute_digest(texts[1]))


@given(place=st.integers(3, LENGTH - 1), letter=st.sampled_from(LETTERS))
def test_one_wrong_letter_is_always_noticed(place: int, letter: str) -> None:
    """Wherever it stands, those that check the others included."""
    text = generate_key()
    wrong = text[:place] + letter + text[place + 1 :]

    assert (find_typo(wrong) == "") == (wrong == text)


@given(place=st.integers(3, LENGTH - 2))
def test_two_letters_in_the_wrong_order_are_noticed(place: int) -> None:
    """As of whoever types quickly."""
    text = generate_key()
    wrong = text[:place] + text[place + 1] + text[place] + text[place + 2 :]

    assert (find_typo(wrong) == "") == (wrong == text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sk-abcdefgh", "keys of this server begin with vk-"),
        ("vk-short", "Incomplete key"),
        ("vk-" + "0" * LENGTH, "Incomplete key"),
        ("vk-" + "\udcff" * (LENGTH - 3), "Mistyped"),
    ],
    ids=["prefix", "short", "long", "letters"],
)
def test_what_is_wrong_with_a_key_is_said(text: str, said: str) -> None:
    """Whatever a client sends, and without repeating it."""
    assert said in find_typo(text)
    assert text not in find_typo(text)
    assert not matches(text, compute_digest(generate_key()))
