"""Front matter: split from a file, and written so that it is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.tables.front_matter import compose_front_matter, split_front_matter


def test_a_file_is_split_into_fields_and_body() -> None:
    text = "---\nname: pdf\nv: 1.0\ntags: [a, b]\nmeta:\n  x: yes\n---\n# Title\n---\nEnd"

    front = split_front_matter(text, "a.md")

    assert front.fields == {
        "name": "pdf",
        "v": "1.0",
        "tags": ["a", "b"],
        "meta": {"x": "yes"},
    }
    assert front.body == "# Title\n---\nEnd"
    assert (front.line, front.is_present) == (8, True)


def test_folded_texts_are_joined() -> None:
    front = split_front_matter("---\r\ndescription: >-\r\n  one\r\n  two\r\n---\r\nBody", "a.md")

    assert (front.fields, front.body) == ({"description": "one two"}, "Body")


@pytest.mark.parametrize(
    "text", ["", "# Title\n", "--- a\n---\n", "---\nname: x\n", " ---\na: b\n---"]
)
def test_without_front_matter_all_is_body(text: str) -> None:
    assert split_front_matter(text, "a.md") == ({}, text, 1, False)


@pytest.mark.parametrize("inner", ["", "\n", "# a comment\n", "null\n"])
def test_empty_front_matter_has_no_fields(inner: str) -> None:
    if inner == "null\n":
        with pytest.raises(ConfigurationError, match="not a table"):
            split_front_matter(f"---\n{inner}---\n", "a.md")
    else:
        assert split_front_matter(f"---\n{inner}---\nx", "a.md")[:2] == ({}, "x")


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        ("a: [", r"a\.md:\d: Invalid YAML"),
        ("a: b: c", r"a\.md:2: Invalid YAML: mapping values"),
        ("a: &x [1]\nb: *x", "a.md:3: Invalid YAML: anchors are not supported"),
        ("- a", "not a table"),
        ("a: " + "[" * 100, "nested too deeply"),
        ("a: " + "x" * 50_001, "longer than 50000"),
        ("a: \x01", "Invalid YAML"),
    ],
)
def test_invalid_front_matter_is_named_with_its_line(inner: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        split_front_matter(f"---\n{inner}\n---\n", "a.md")


letters = st.characters(exclude_categories=["Cs"])
texts = st.text(letters)
values = st.recursive(
    texts,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(texts, inner, max_size=3),
    ),
    max_leaves=6,
)


@pytest.mark.hypothesis
@given(
    st.dictionaries(texts, values, max_size=4), st.text(st.characters(exclude_categories=["Cs"]))
)
def test_what_is_written_is_read_back(fields: dict[str, object], body: str) -> None:
    front = split_front_matter(compose_front_matter(fields, body), "a.md")

    assert (front.fields, front.body) == (fields, body)


def test_what_looks_like_another_kind_stays_a_text() -> None:
    fields = {"a": "true", "b": "2026-11-29", "c": "- x", "d": "x: y", "e": "é\n\U0001f600\x85"}

    written = compose_front_matter(fields, "Body\n")

    assert split_front_matter(written, "a.md")[:2] == (fields, "Body\n")
    assert "b: 2026-11-29\n" in written


def test_empty_fields_are_written_as_they_were() -> None:
    text = "---\ndraft:\naliases: []\nmeta: {}\ntags:\n- a\n-\n---\nBody\n"

    front = split_front_matter(text, "a.md")

    assert compose_front_matter(front.fields, front.body) == text
