"""Classes of ours are built with less at the start, and are the same as those of attrs."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from vibe_llms.foundation.attrs_building import _LazyConstructor
from vibe_llms.foundation.attrs_classes import define, frozen


def _own(cls: type[Any]) -> type[Any]:
    """Makes a class one of ours, by the name of its module."""
    cls.__module__ = "vibe_llms.testing.built"
    return cls


def _make(decorate: Callable[[type[Any]], type[Any]], *, ours: bool) -> type[Any]:
    class Point:
        count: int
        label: str = attrs.field(default="a", converter=str)
        sizes: list[int] = attrs.field(factory=list, kw_only=True)

        def __attrs_post_init__(self) -> None:
            self.sizes.append(self.count)

        def describe(self) -> str:
            return f"{super().__str__()!s:.0}{self.label}"

    return decorate(_own(Point) if ours else Point)


BOTH = pytest.mark.parametrize(
    "decorate", [define, frozen, define(slots=False), frozen(slots=False)]
)


@BOTH
def test_a_constructor_is_generated_at_its_first_use(
    decorate: Callable[[type[Any]], type[Any]],
) -> None:
    cls = _make(decorate, ours=True)
    assert isinstance(vars(cls)["__init__"], _LazyConstructor)

    point = cls(3, label=4, sizes=[1])

    assert (point.count, point.label, point.sizes, point.describe()) == (3, "4", [1, 3], "4")
    assert inspect.isfunction(vars(cls)["__init__"])


@BOTH
def test_a_signature_is_that_of_attrs(decorate: Callable[[type[Any]], type[Any]]) -> None:
    ours, theirs = _make(decorate, ours=True), _make(decorate, ours=False)

    assert inspect.signature(ours) == inspect.signature(theirs)
    assert ours.__init__.__annotations__ == theirs.__init__.__annotations__
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        ours(1, depth=2)


def test_a_subclass_uses_the_constructor_of_its_base() -> None:
    base = _make(frozen, ours=True)

    class Plain(base):  # type: ignore[misc,valid-type]
        def __init__(self, count: int) -> None:
            super().__init__(count, "b")

    class Inheriting(base):  # type: ignore[misc,valid-type]
        pass

    assert (Plain(1).label, Inheriting(2, "c").label) == ("b", "c")


def test_an_inherited_field_is_marked_and_a_copy() -> None:
    base = _make(frozen, ours=True)
    body = {"__annotations__": {"depth": "int"}, "depth": 0}
    derived = frozen(_own(type("Derived", (base,), body)))

    assert [(each.name, each.inherited) for each in attrs.fields(derived)] == [
        ("count", True),
        ("label", True),
        ("sizes", True),
        ("depth", False),
    ]
    assert [each.inherited for each in attrs.fields(base)] == [False] * 3
    assert derived(1, depth=2).depth == 2


def test_fields_are_found_by_name_as_with_attrs() -> None:
    """Also one with the name of a method of tuples."""
    ours, theirs = _make(frozen, ours=True), _make(frozen, ours=False)

    assert attrs.fields(ours) == attrs.fields(theirs)
    assert attrs.fields(ours).count is attrs.fields(ours)[0]
    assert attrs.fields(ours).index(attrs.fields(ours).label) == 1
    with pytest.raises(AttributeError, match="depth"):
        _ = attrs.fields(ours).depth


def test_a_copied_field_equals_the_original() -> None:
    field = attrs.fields(_make(frozen, ours=True)).label

    assert copy.copy(field) == field
    assert field.evolve(alias="tag").alias == "tag"
    assert field.alias == "label"


def test_the_original_of_a_class_with_slots_is_not_kept() -> None:
    """It would be a second subclass of its bases for as long as no value is constructed."""
    import gc

    base: Any = type("Base", (), {"__slots__": ()})
    kept = frozen(_own(type("Kept", (base,), {"__annotations__": {"size": "int"}})))
    gc.collect()

    assert base.__subclasses__() == [kept]


def test_classes_of_others_are_built_by_attrs_alone() -> None:
    cls = _make(frozen, ours=False)

    assert inspect.isfunction(vars(cls)["__init__"])
    assert type(attrs.fields(cls)).__name__ == "PointAttributes"
