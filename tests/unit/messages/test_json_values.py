"""Plain data are copied alike by the quick way and by the one that explains errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from strategies.messages import json_objects
from vibe_llms.exceptions import RequestError
from vibe_llms.messages import json_values
from vibe_llms.messages.json_values import DEPTH_LIMIT, ensure_controls, ensure_schema


class _Text(str):
    """A text of another class."""

    __slots__ = ()


ODD_VALUES: list[Any] = [
    1.0,
    1.5,
    -0.0,
    float("nan"),
    2**64,
    -(2**63),
    (1, 2),
    _Text("a"),
    "\ud800",
    "é",
    b"bytes",
    object(),
    {1: 2},
    {"\ud800": 1},
    {_Text("a"): 1},
]


def copy_slowly(value: Any) -> list[str]:
    """Return the texts of copies as a schema and as controls, or the errors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_values, "_copy_common", lambda value, depth, keeps_order: None)
        return copy_quickly(value)


def copy_quickly(value: Any) -> list[str]:
    """Return the same as it is usually done."""
    texts = []
    for ensure in (ensure_schema, ensure_controls):
        try:
            texts.append(json.dumps(ensure(value)))
        except RequestError as error:
            texts.append(str(error))
    return texts


@given(json_objects)
def test_any_schema_is_copied_alike(schema: dict[str, Any]) -> None:
    """The order of a schema is kept; controls are sorted at any depth."""
    assert copy_quickly(schema) == copy_slowly(schema)


@pytest.mark.parametrize("odd", ODD_VALUES, ids=lambda value: type(value).__name__)
def test_odd_values_are_copied_or_refused_alike(odd: Any) -> None:
    """With the path of the value, at any depth."""
    for schema in ({"a": odd}, {"a": {"b": [1, odd]}}, {"a": [{"b": odd, "c": None}, True]}):
        assert copy_quickly(schema) == copy_slowly(schema)


def test_data_may_nest_as_deeply_as_by_the_slow_way() -> None:
    """And circular data are an error."""
    for depth in (DEPTH_LIMIT - 1, DEPTH_LIMIT, DEPTH_LIMIT + 1, DEPTH_LIMIT + 2):
        schema: dict[str, Any] = {}
        for _ in range(depth):
            schema = {"a": schema}
        assert copy_quickly(schema) == copy_slowly(schema)
    schema["a"] = schema
    assert all("nest deeper" in text for text in copy_quickly(schema))


def test_a_copy_does_not_change_with_the_original() -> None:
    """Nor do objects and lists within."""
    schema: dict[str, Any] = {"properties": {"a": {"enum": [1]}}}
    copied = ensure_schema(schema)

    schema["properties"]["a"]["enum"].append(2)

    assert copied == {"properties": {"a": {"enum": [1]}}}
