"""Where values of JSON stand agrees with what ``json`` reads."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.tables.json_documents import (
    DEPTH_LIMIT,
    NODES_LIMIT,
    find_excess,
    parse_json_document,
)
from vibe_llms.tables.json_offsets import locate_values

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


@given(TREES, st.sampled_from([None, 0, 2, "\t"]), st.booleans())
def test_every_value_is_found_where_it_is_written(tree: Any, indent: Any, escapes: bool) -> None:
    """From its place on, a value reads as itself, however the text is laid out."""
    text = json.dumps(tree, indent=indent, ensure_ascii=escapes)

    places = locate_values(text)

    decoder = json.JSONDecoder()
    for path, offset in places.values.items():
        value = tree
        for part in path:
            value = value[part]
        assert decoder.raw_decode(text, offset)[0] == value
        line, column = places.locate(places.keys[path])
        assert text.split("\n")[line - 1][column - 1 :].strip()
    assert not places.repeated


@given(st.text(), st.booleans())
def test_every_character_is_found_where_it_is_written(value: str, escapes: bool) -> None:
    """A character of a text is found at the escape that stands for it."""
    text = json.dumps([value], ensure_ascii=escapes)
    places = locate_values(text)

    offsets = [places.find_character((0,), index) for index in range(len(value) + 1)]

    pieces = [text[start:end] for start, end in itertools.pairwise(offsets)]
    assert [json.loads(f'"{piece}"') for piece in pieces] == list(value)
    assert text[offsets[-1] :] == '"]'


@pytest.mark.parametrize(
    ("raw", "finding"),
    [
        (b'{"a": 1,}', "task.json:1:"),
        (b'{\n "a": NaN}', "task.json: Invalid JSON: NaN is not a JSON number."),
        (
            b"[1]",
            "task.json:1: The document must be a JSON object, which begins with '{'.",
        ),
        (b"[" * 100_000, "task.json: Invalid JSON: objects or arrays nest too deeply."),
        (b'{"a": ' * 101 + b"1" + b"}" * 101, "task.json: It nests more than 100 levels deep."),
        (b'{"a": ' + b"1" * 5000 + b"}", "task.json: Invalid JSON: Exceeds the limit"),
        (b'{\n\n "a": "\xff"}', "task.json:3: JSON files must be UTF-8."),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(raw: bytes, finding: str) -> None:
    """A file that cannot be read says where it ceases to be one."""
    with pytest.raises(ConfigurationError) as caught:
        parse_json_document(raw, "task.json")

    assert str(caught.value.findings[0]).startswith(finding)


def test_a_key_that_stands_twice_is_told_with_its_place() -> None:
    """Whoever writes a key twice meant something by both; what lies within is not told again."""
    document = parse_json_document(b'{"a": {"b": 1},\n "c": 2,\n  "a": {"b": 2}}', "task.json")

    findings = document.produce_reader().findings

    assert [str(each).split(": The key")[0] for each in findings] == ["task.json:3:3: a"]


def test_a_mark_of_windows_editors_harms_nothing() -> None:
    """A byte order mark before the text is left out."""
    assert parse_json_document(b'\xef\xbb\xbf{"a": 1}', "task.json").tree == {"a": 1}


@pytest.mark.slow
def test_rings_and_floods_end() -> None:
    """Plain data of a program may be a ring, or more than anybody could hold."""
    ring: dict[str, Any] = {}
    ring["a"] = ring["b"] = ring

    assert find_excess(ring) == f"It nests more than {DEPTH_LIMIT} levels deep."
    assert find_excess([[0]] * NODES_LIMIT) == f"It has more than {NODES_LIMIT} values."
    assert find_excess({"a": [1, "b", {}]}) is None
