"""Frozen classes with slots, and drafts from which their values are made fast.

Values with slots take half of the memory and of the time of values with dictionaries. But msgspec
writes slots in the order of their names; only a dataclass is written in the order of its fields.
So these classes are dataclasses as well: ``__dataclass_fields__`` is made when it is first read.

A *draft* is a mutable subclass. To make a value of parts that are known to be valid, set the fields
of a draft, and then its ``__class__``. This takes a fourth of the time of the constructor, which
validates each field.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.method_cache import compile_generated

__all__ = ["find_copier", "find_draft", "slotted"]


class _LazyAttribute:
    """Attribute of a class that is made when it is first read.

    Args:
        name: The name of the attribute.
        make: Makes its value for a class.
    """

    def __init__(self, name: str, make: Callable[[Any], Any]) -> None:
        self._name, self._make = name, make

    def __get__(self, value: object, kind: type[Any]) -> Any:
        made = self._make(kind)
        setattr(kind, self._name, made)
        return made


def _make_dataclass_fields(kind: Any) -> dict[str, Any]:
    import dataclasses

    fields: dict[str, Any] = {}
    for each in attrs.fields(kind):
        field = fields[each.name] = dataclasses.field(init=each.init, kw_only=each.kw_only)
        field.name, field.type = each.name, each.type
        field._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
    return fields


def _make_dataclass_parameters(kind: Any) -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(init=True, repr=False, eq=True, order=False, frozen=True)


def _add_slots(cls: type[Any] | None = None, **settings: Any) -> Any:
    if cls is None:
        return functools.partial(_add_slots, **settings)
    kind = frozen(cls, **settings)
    for name, make in (
        ("__dataclass_fields__", _make_dataclass_fields),
        ("__dataclass_params__", _make_dataclass_parameters),
    ):
        setattr(kind, name, _LazyAttribute(name, make))
    return kind


if TYPE_CHECKING:
    from attrs import frozen as slotted
else:
    slotted = _add_slots
    """``attrs.frozen`` for classes with slots that msgspec writes in the order of their fields."""


def _make_draft(kind: Any) -> Callable[[], Any]:
    methods = {
        "__slots__": (),
        "__init__": object.__init__,
        "__setattr__": object.__setattr__,
        "__delattr__": object.__delattr__,
    }
    return type(f"{kind.__name__}Draft", (kind,), methods)


find_draft: Final[Callable[[Any], Callable[[], Any]]] = functools.cache(_make_draft)
"""Return the draft of a class with slots: call it, set all fields and then ``__class__``."""


_SAME = object()


def _make_copier(kind: Any) -> Callable[..., Any]:
    names = [field.name for field in attrs.fields(kind)]
    lines = [f"    _copy.{name} = _value.{name} if {name} is _same else {name}\n" for name in names]
    parameters = ", ".join(f"{name}=_same" for name in names)
    source = (
        f"def produce(_value, *, {parameters}):\n    _copy = _make()\n"
        f"{''.join(lines)}    _copy.__class__ = _kind\n    return _copy\n"
    )
    namespace: dict[str, Any] = {"_make": find_draft(kind), "_same": _SAME, "_kind": kind}
    name = f"<copy {kind.__module__}.{kind.__qualname__}>"
    exec(compile_generated(source, name, "exec"), namespace)
    produce: Callable[..., Any] = namespace["produce"]
    return produce


find_copier: Final[Callable[[Any], Callable[..., Any]]] = functools.cache(_make_copier)
"""Return the function that copies a value of a class with slots; changed fields are given by name.

Nothing is validated. The function is generated: a loop over the fields takes three times as long.
"""
