"""JSON that is read while it is being written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.instruments.parsers.json_reader import (
    JsonFault,
    JsonReader,
    is_growing,
    read_values,
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["\ud83d", "\ude00", "\ud83d\ude00", '"\\/\b\f\n\r\t', "\ud83dx", "\\u0041"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
WRITTEN = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent),
    VALUES,
    st.booleans(),
    st.sampled_from([None, 1]),
)


def continues(earlier: Any, later: Any) -> bool:
    """Tells whether what was there is still there, and may have grown where it was growing."""
    if earlier is ABSENT:
        return True
    if not is_growing(earlier):
        return later == earlier and not is_growing(later)
    if isinstance(earlier, str):
        return isinstance(later, str) and later.startswith(earlier)
    if isinstance(earlier, list):
        return (
            isinstance(later, list)
            and len(later) >= len(earlier)
            and all(map(continues, earlier, later))
        )
    return isinstance(later, dict) and all(
        name in later and continues(value, later[name]) for name, value in earlier.items()
    )


@pytest.mark.slow
@given(WRITTEN)
def test_each_prefix_gives_a_part_of_what_the_next_gives(written: str) -> None:
    """What is there stays or grows, never turns into something else, and ends as the whole."""
    reader, earlier = JsonReader(), ABSENT
    whole = json.loads(written)
    for character in written:
        reader.feed(character)
        later = reader.value
        assert continues(earlier, later)
        assert continues(later, whole)
        earlier = later

    assert reader.finish() == whole
    assert not is_growing(reader.value)


@given(WRITTEN, st.data())
def test_how_a_text_is_split_makes_no_difference(written: str, data: st.DataObject) -> None:
    """After the same characters the same has arrived."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(written)), max_size=5)))
    whole, split = JsonReader(), JsonReader()

    for begin, end in zip([0, *cuts], [*cuts, len(written)], strict=True):
        split.feed(written[begin:end])
    whole.feed(written)

    assert repr(whole.value) == repr(split.value)
    assert whole.finish() == split.finish() == json.loads(written)


@given(WRITTEN)
def test_a_change_is_counted_whenever_something_becomes_visible(written: str) -> None:
    """So that nobody has to look at a value that is the same as before."""
    reader = JsonReader()
    for character in written:
        before, count = reader.value, reader.changes
        reader.feed(character)
        if reader.changes == count:
            assert repr(reader.value) == repr(before)


@pytest.mark.parametrize(
    ("prefix", "value"),
    [
        ("", ABSENT),
        ('{"na', {}),
        ('{"name":', {}),
        ('{"name": "', {"name": ""}),
        ('{"name": "Pa', {"name": "Pa"}),
        ('{"name": "Pa\\', {"name": "Pa"}),
        ('{"name": "Pa\\u00e', {"name": "Pa"}),
        ('{"name": "\\ud83d', {"name": ""}),
        ('{"a": 12', {}),
        ('{"a": 12,', {"a": 12}),
        ('{"a": tru', {}),
        ('{"a": [1, {"b": "c', {"a": [1, {"b": "c"}]}),
        ("[1, 2, 3", [1, 2]),
    ],
)
def test_only_what_is_certain_is_there(prefix: str, value: Any) -> None:
    """A number may go on, a name may, and half an escape is no character."""
    reader = JsonReader()
    reader.feed(prefix)

    assert reader.value == value


@pytest.mark.parametrize(
    "text",
    [
        "{name: 1}",
        "{'name': 1}",
        "[1 2]",
        '{"a" 1}',
        '{"a": }',
        "[,]",
        "[1,,2]",
        '{"a":1,,}',
        "[01]",
        "[1.]",
        "[.5]",
        "[-]",
        "[+1]",
        "[1e]",
        "[NaN]",
        "[Infinity]",
        "[1e999]",
        "[True]",
        '["\\x"]',
        '["\\u12g4"]',
        "[}",
        "{]",
        "[1}",
        "[" * 200,
    ],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    """Also where it could be guessed what was meant."""
    with pytest.raises(JsonFault, match="at character"):
        JsonReader().feed(text)


@pytest.mark.parametrize("text", ["", "  ", "[1", '"a', '{"a"', "-", '"\\u00', "tru"])
def test_what_breaks_off_is_no_json_either(text: str) -> None:
    """It is known at the end alone."""
    reader = JsonReader()
    reader.feed(text)

    with pytest.raises(JsonFault):
        reader.finish()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2, ], }', {"a": [1, 2]}),
        ('["two\nlines"]', ["two\nlines"]),
        ("[1,\n]", [1]),
    ],
)
def test_slips_that_can_mean_but_one_thing_are_taken(text: str, value: Any) -> None:
    """A comma before a closing bracket, a line that breaks within a text."""
    reader = JsonReader()
    reader.feed(text)

    assert reader.finish() == value


def test_what_has_been_seen_does_not_change_any_more() -> None:
    """Whoever keeps a partial value keeps that, whatever arrives later."""
    reader = JsonReader()
    reader.feed('{"a": [1, 2, ')
    seen = reader.value
    reader.feed('3], "b": 1}')

    assert seen == {"a": [1, 2]}
    assert reader.finish() == {"a": [1, 2, 3], "b": 1}


def test_values_are_found_among_other_words() -> None:
    """Braces that are no JSON are passed over; what lies within a value is part of it."""
    text = 'A {set}: {"a": {"b": 1}} or {"c": "}"}, and {"d": '

    found = [(value, text[begin:end]) for value, begin, end in read_values(text)]

    assert found == [({"a": {"b": 1}}, '{"a": {"b": 1}}'), ({"c": "}"}, '{"c": "}"}')]
