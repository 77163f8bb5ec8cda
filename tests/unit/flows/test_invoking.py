"""What a tool node invokes is read off its label, with places, and rendered to values of JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.flows.interpolation import TemplateScope
from vibe_llms.flows.invoking import adapt_arguments, read_invocation, render_arguments

SCOPE = TemplateScope(
    variables={"rows": [1, {"a": None}], "topic": "cells"},
    responses={"P0": "it's {{topic}}"},
    loop=(1, 4),
)


@pytest.mark.parametrize(
    ("label", "tool", "arguments"),
    [
        ("calculate", "calculate", {}),
        (" calculate \n", "calculate", {}),
        ("io__read path=notes.txt", "io__read", {"path": "notes.txt"}),
        ("a b=1 c=-2.5 d=true e=1e5", "a", {"b": 1, "c": -2.5, "d": True, "e": "1e5"}),
        ("a b='1' c='it''s' d=''", "a", {"b": "1", "c": "it's", "d": ""}),
        ("a b={{rows}} d=x{{rows}}", "a", {"b": [1, {"a": None}], "d": 'x[1, {"a": null}]'}),
        ("a b='{{topic}}'", "a", {"b": "cells"}),
        ("a b={{ response:P0 }}", "a", {"b": "it's {{topic}}"}),
        ("a b='1'\n c='{{response:P0}}!'", "a", {"b": "1", "c": "it's {{topic}}!"}),
        ("a n={{loop.index}} of='{{loop.count}} rounds'", "a", {"n": 1, "of": "4 rounds"}),
        ("a b=x=y", "a", {"b": "x=y"}),
    ],
)  # fmt: skip
def test_a_label_says_what_is_invoked(label: str, tool: str, arguments: object) -> None:
    """Numbers and lists stay what they are, texts are texts, and nothing is put in twice."""
    invocation = read_invocation(label)

    assert (invocation.faults, invocation.tool) == ((), tool)
    assert render_arguments(invocation, SCOPE) == arguments


@pytest.mark.parametrize(
    ("label", "place", "words"),
    [
        ("", (1, 1), "name of the tool is missing"),
        ("path=notes.txt", (1, 1), "name of the tool is missing"),
        ("a notes.txt", (1, 3), "Invalid argument"),
        ("a b=1\n  c", (2, 3), "Invalid argument"),
        ("a b='1", (1, 3), "Invalid argument"),
        ("a b=1 b=2", (1, 7), "is given twice"),
        ("a b={{1 + 1}}", (1, 5), "Unknown placeholder"),
        ("a b='x {{1 + 1}}'", (1, 8), "Unknown placeholder"),
        ("a\n b={{1 + 1}}", (2, 4), "Unknown placeholder"),
    ],
)
def test_what_does_not_read_is_found_with_its_place(
    label: str, place: tuple[int, int], words: str
) -> None:
    """And with what to write."""
    (fault,) = read_invocation(label).faults

    assert (fault.line, fault.column) == place
    assert words in fault.message


@given(
    st.dictionaries(
        st.from_regex("[a-z_][a-z0-9_-]{0,5}", fullmatch=True),
        st.text("ab '=\n.1{}é", max_size=8).filter(lambda text: "{{" not in text)
        | st.integers(-(10**9), 10**9)
        | st.booleans()
        | st.none(),
    )
)
def test_whatever_is_written_is_read_back(arguments: dict[str, object]) -> None:
    """Texts between single quotes, each of which is doubled inside."""
    label = " ".join(["tool", *(f"{name}={_write(value)}" for name, value in arguments.items())])
    invocation = read_invocation(label)

    assert invocation.faults == ()
    assert render_arguments(invocation, TemplateScope()) == arguments


def _write(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value is None:
        return "null"
    return str(value).lower()


@given(st.text("a=' {}\n1:.-é"))
def test_any_label_is_read(label: str) -> None:
    """It has faults, or it renders."""
    invocation = read_invocation(label)

    assert invocation.faults or invocation.tool


@pytest.mark.parametrize(
    ("label", "schema", "value"),
    [
        ("a x={{five}}", {"type": "integer"}, 5),
        ("a x='{{five}}'", {"type": ["integer", "null"]}, 5),
        ("a x={{five}}", {"type": "number"}, 5),
        ("a x={{five}}", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 5),
        ("a x={{list}}", {"type": "array"}, ["b"]),
        ("a x={{list}}", {"anyOf": [{"type": "array"}, {"type": "string"}]}, '["b"]'),
        ("a x={{list}}", {"anyOf": [{"type": "array"}, {"$ref": "#/$defs/X"}]}, '["b"]'),
        ("a x={{list}}", {"type": "object"}, '["b"]'),
        ("a x={{five}}", {"type": "boolean"}, "5"),
        ("a x={{five}}", {"type": "string"}, "5"),
        ("a x={{five}}", {}, "5"),
        ("a x={{five}}", True, "5"),
        ("a x={{number}}", {"type": "string"}, "20190"),
        ("a x=20190", {"type": "string"}, "20190"),
        ("a x=1.50", {"type": "string"}, "1.50"),
        ("a x=true", {"type": "string"}, "true"),
        ("a x=true", {"type": "integer"}, True),
        ("a x=null", {"type": "string"}, None),
        ("a x={{rows}}", {"type": "string"}, [1]),
        ("a x=few", {"type": "integer"}, "few"),
        ("a x=2.0", {"type": "integer"}, 2.0),
        ("a x=2.5", {"type": "integer"}, 2.5),
    ],
)  # fmt: skip
def test_arguments_take_the_types_of_the_tool(label: str, schema: object, value: object) -> None:
    """A text that is a number is one where a number is wanted, and the other way round."""
    scope = TemplateScope(variables={"five": "5", "list": '["b"]', "number": 20190, "rows": [1]})
    invocation = read_invocation(label)

    fitted = adapt_arguments(
        invocation,
        render_arguments(invocation, scope),
        {"type": "object", "properties": {"x": schema}},  # type: ignore[dict-item]
    )

    assert (fitted, type(fitted["x"])) == ({"x": value}, type(value))
