"""The lines on which keys stand agree with what tomli reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.tables.toml_lines import Path, locate_keys


def survey_paths(value: object, path: Path = ()) -> Iterator[Path]:
    """Yields the path of every key that tomli read, and of each structured array element."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from survey_paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if isinstance(inner, dict | list):
                yield (*path, index)
            yield from survey_paths(inner, (*path, index))


def access_value(tree: object, path: Path) -> object:
    for step in path:
        tree = tree[step]  # type: ignore[index]
    return tree


def check(text: str, path: Path, line: int) -> None:
    lines = locate_keys(text)

    assert set(lines) == set(survey_paths(tomli.loads(text)))
    assert lines[path] == line


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a = 1\nb = 2\n", ("b",), 2),
        ("# a = 1\n\na.b . c = 1", ("a", "b", "c"), 3),
        ("['a.b' . \"c d\"]\nx = 1", ("a.b", "c d", "x"), 2),
        ('"\\u0061\\"" = 1', ('a"',), 1),
        ("[[a]]\nx = 1\n[[a]]\nx = 2\n[a.b]\ny = 1", ("a", 1, "b", "y"), 6),
        ("[[a]]\n[[a.b]]\nx = 1\n[[a]]\n[[a.b]]\nx = 2", ("a", 1, "b", 0, "x"), 6),
        ("a = { b = 1, c.d = 'x' }", ("a", "c", "d"), 1),
        ("a = [ # ]\n  { b = 1 },\n  { b = ']' },\n]\nc = 1", ("a", 1, "b"), 3),
        ("a = [\n [1, 2],\n [3],\n]\nc = 1", ("c",), 5),
        ('a = """\nb = 1\n\\""" c = 2"""""\nd = 1', ("d",), 4),
        ("a = '''\nb = '' 1\n'''''\nd = 1", ("d",), 4),
        ("a = 1979-05-27 07:32:00 # b = 1\r\nc = 1\r\n", ("c",), 2),
        ("a = ''\nb = \"\"\nc = '#'\nd = 1", ("d",), 4),
        ("[a.b]\nx = 1\n[a]\ny = 2", ("a", "y"), 4),
        ("a = []\nb = {}\nc = 1", ("c",), 3),
    ],
)
def test_a_key_is_found_on_the_line_where_it_stands(text: str, path: Path, line: int) -> None:
    """Dotted, quoted, inline and repeated keys all have the line a reader would name."""
    check(text, path, line)


KEYS = st.sampled_from(["a", "b-1", "'c.d'", '"e f"', '"\\u00e9"', "7"])
DOTTED = st.lists(KEYS, min_size=1, max_size=3).map(".".join)
LEAVES = st.sampled_from(
    ["true", "1.5e3", "'[x] = #'", '"\\"]}"', "'''\nx = 1\n[y]'''", '"""\n\\"""z\n"""', "07:32:00"]
)


def nest_values(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arrays = st.lists(inner, max_size=3).map(lambda items: "[ # [\n" + ",\n".join(items) + "\n]")
    tables = st.dictionaries(KEYS, inner, max_size=3).map(
        lambda items: "{ " + ", ".join(f"{key} = {value}" for key, value in items.items()) + " }"
    )
    return arrays | tables


VALUES = st.recursive(LEAVES, nest_values, max_leaves=5)
STATEMENTS = st.one_of(
    st.tuples(DOTTED, VALUES).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    DOTTED.map(lambda key: f"[{key}] # ]]"),
    DOTTED.map(lambda key: f"[[ {key} ]]"),
    st.sampled_from(["", "# a = 1"]),
)


@given(st.lists(STATEMENTS, max_size=12))
def test_every_key_that_tomli_reads_is_found_in_the_statement_that_made_it(
    statements: list[str],
) -> None:
    """Each key is first seen by tomli once the text up to the end of its statement is there."""
    accepted: list[str] = []
    starts: list[tuple[int, int, set[Path]]] = []
    seen: set[Path] = set()
    for statement in statements:
        candidate = [*accepted, statement]
        try:
            tree = tomli.loads("\n".join(candidate))
        except tomli.TOMLDecodeError:
            continue
        first = "\n".join(accepted).count("\n") + 2 if accepted else 1
        paths = set(survey_paths(tree))
        starts.append((first, first + statement.count("\n"), paths - seen))
        accepted, seen = candidate, paths

    lines = locate_keys("\n".join(accepted))

    assert set(lines) == seen
    for first, last, paths in starts:
        assert all(first <= lines[path] <= last for path in paths)
