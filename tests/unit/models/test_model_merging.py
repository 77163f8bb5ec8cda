"""How a later layer's value meets an earlier one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.models.merging import (
    DIRECTIVES,
    MergeError,
    merge_lists,
    merge_tables,
    merge_values,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.text()
LISTS = st.lists(SCALARS, max_size=5)
WORDS = st.sampled_from("abcde")
TABLES = st.dictionaries(WORDS, SCALARS | LISTS, max_size=4)
PLAIN = SCALARS | LISTS | TABLES
EARLIER = PLAIN | st.just(ABSENT)


@given(earlier=EARLIER, later=PLAIN)
def test_a_plain_value_replaces(earlier: Any, later: Any) -> None:
    """Without a word about it the later layer wins, also for lists and tables."""
    assert merge_values(earlier, later) == later
    assert merge_values(earlier, {"replace": later}) == later


@given(earlier=EARLIER)
def test_a_removed_value_is_absent(earlier: Any) -> None:
    """A layer can take away what an earlier one said."""
    assert merge_values(earlier, {"remove": True}) is ABSENT


@given(first=LISTS, second=LISTS, third=LISTS)
def test_merging_lists_is_associative(first: Any, second: Any, third: Any) -> None:
    """How layers are grouped is no matter for what a list becomes."""
    left = merge_lists(merge_lists(first, second), third)
    right = merge_lists(first, merge_lists(second, third))

    assert (left, [*map(type, left)]) == (right, [*map(type, right)])


@given(first=TABLES, second=TABLES, third=TABLES)
def test_merging_tables_of_plain_values_is_associative(first: Any, second: Any, third: Any) -> None:
    """How layers are grouped is no matter for what a table becomes."""
    left = merge_tables(merge_tables(first, second), third)

    assert left == merge_tables(first, merge_tables(second, third))


@given(earlier=LISTS, later=LISTS)
def test_a_merged_list_keeps_order_and_repeats_nothing(earlier: Any, later: Any) -> None:
    """What was there stays in front; only what it lacks is appended."""
    merged: Any = merge_values(earlier, {"merge": later})

    marks = [(type(value), value) for value in merged]
    assert len(marks) == len(set(marks))
    assert set(marks) == {(type(value), value) for value in (*earlier, *later)}
    assert marks == list(dict.fromkeys((type(value), value) for value in (*earlier, *later)))


ALIKE = st.sampled_from([True, 1, False, 0, "", None])
NESTED = st.recursive(ALIKE, lambda inner: st.lists(inner, max_size=2) | st.tuples(inner).map(list))


def mark(value: Any) -> Any:
    """Returns what is equal only for values that are written alike."""
    return [mark(each) for each in value] if isinstance(value, list) else (type(value), value)


@examples(400)
@given(earlier=st.lists(NESTED, max_size=3), later=st.lists(NESTED, max_size=3))
def test_true_is_not_one_when_lists_are_merged_at_any_depth(earlier: Any, later: Any) -> None:
    """In Python they are equal, in a file they are two values; so are false and zero."""
    expected: list[Any] = []
    for value in (*earlier, *later):
        if mark(value) not in expected:
            expected.append(mark(value))

    assert mark(merge_lists(earlier, later)) == expected


@given(earlier=TABLES, later=TABLES)
def test_a_merged_table_takes_the_later_value_of_a_key(earlier: Any, later: Any) -> None:
    """Keys that the later table does not name stay as they were."""
    assert merge_values(earlier, {"merge": later}) == {**earlier, **later}


def test_a_merge_reaches_into_the_values_of_a_table() -> None:
    """Inside a merged table each key may again merge, replace or remove."""
    earlier = {"a": [1], "b": 2, "c": 3}

    merged = merge_values(
        earlier, {"merge": {"a": {"merge": [2]}, "b": {"remove": True}, "d": {"replace": 4}}}
    )

    assert merged == {"a": [1, 2], "c": 3, "d": 4}


@pytest.mark.parametrize("word", DIRECTIVES)
def test_replace_lets_a_table_hold_the_very_words(word: str) -> None:
    """A value that looks like a directive is written inside ``replace``."""
    value = {word: [1]}

    assert merge_values(ABSENT, {"replace": value}) == value


@pytest.mark.parametrize(
    ("earlier", "later", "message"),
    [
        (5, {"merge": [1]}, "into a number"),
        ("x", {"merge": {"a": 1}}, "into a text"),
        ([1], {"merge": {"a": 1}}, "into a list"),
        ({}, {"merge": [1]}, "into a table"),
        ([1], {"merge": 5}, "takes a list or a table, not a number"),
        ([1], {"remove": False}, "only true"),
    ],
)
def test_values_of_different_kinds_do_not_merge(earlier: Any, later: Any, message: str) -> None:
    """A merge that makes no sense is refused and named, not guessed at."""
    with pytest.raises(MergeError, match=message):
        merge_values(earlier, later)


@pytest.mark.parametrize(
    ("first", "second", "lacks"),
    [
        ({"a": 1}, {"a": 1}, False),
        ({"a": 1}, {"a": True}, True),
        ({"a": {"b": [1]}}, {"a": {"b": [True]}}, True),
        ({"a": 1}, {"b": 1}, True),
        ({"a": 1}, {"a": 1, "b": 1}, True),
        ({}, [], True),
        ([], {}, True),
    ],
)
def test_tables_in_a_list_are_the_same_where_they_are_written_alike(
    first: Any, second: Any, lacks: bool
) -> None:
    """Their keys as well as their values, at any depth."""
    merged = merge_values([first], {"merge": [second]})

    assert merged == ([first, second] if lacks else [first])


def test_a_table_may_merge_into_and_remove_what_no_earlier_layer_has() -> None:
    """As the layers before may come from elsewhere another time."""
    later = {"list": {"merge": [1]}, "table": {"merge": {"c": 2}}, "gone": {"remove": True}}

    assert merge_tables({}, later) == {"list": [1], "table": {"c": 2}}
    assert merge_tables({"gone": 1}, later) == {"list": [1], "table": {"c": 2}}
