"""Builder of attrs classes that leaves for later what the start of a program does not need.

A program defines hundreds of classes at its start and constructs values of half of them.

* Constructors are generated at their first use.
* Fields are in a tuple of one class for all; attrs makes a class for the fields of each.
* Fields are copied slot by slot, not by pickling; attrs copies each inherited one.
"""

from __future__ import annotations

from typing import Any

import attr._make

_OURS = "vibe_llms."
_Builder: Any = attr._make._ClassBuilder
_make_fields_class: Any = attr._make._make_attr_tuple_class


class _Fields(tuple[Any, ...]):
    """The fields of a class, which are attributes by their names."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        for field in self:
            if field.name == name:
                return field
        return super().__getattribute__(name)


class _LazyConstructor:
    """Attribute ``__init__`` of a class, which replaces itself by the generated function.

    Args:
        builder: The builder, which knows the fields.
    """

    def __init__(self, builder: _LazyBuilder) -> None:
        self._builder: Any = builder
        self._function: Any = None

    def __get__(self, value: object, kind: type[Any] | None = None) -> Any:
        if self._function is None:
            self._function = self._builder.generate_constructor()
        return self._function.__get__(value, kind)


class _LazyBuilder(_Builder):  # type: ignore[misc]
    """Builder of attrs that is lazy for our classes, and usual for those of others."""

    def __init__(self, cls: type[Any], *arguments: Any, **settings: Any) -> None:
        # If another thread builds a class now, it gets the other kind of tuple: both are right.
        attr._make._make_attr_tuple_class = _choose_shared if _is_ours(cls) else _make_fields_class
        super().__init__(cls, *arguments, **settings)

    def add_init(self) -> Any:
        if not _is_ours(self._cls):
            return super().add_init()
        self._cls_dict["__init__"] = _LazyConstructor(self)
        return self

    def _eval_snippets(self) -> None:
        if self._script_snippets:
            super()._eval_snippets()

    def build_class(self) -> Any:
        # A class with slots replaces the original one, which must not stay alive.
        cls = self._cls = super().build_class()
        self._cls_dict: dict[str, Any] = {}
        return cls

    def generate_constructor(self) -> Any:
        """Generate the constructor and set it on the class."""
        self._script_snippets.clear()
        super().add_init()
        super()._eval_snippets()
        constructor = self._cls.__init__ = self._cls_dict["__init__"]
        return constructor


def _is_ours(cls: type[Any]) -> bool:
    return cls.__module__.startswith(_OURS)


def _choose_shared(cls_name: str, attr_names: list[str]) -> type[_Fields]:
    return _Fields


def _copy_field(field: Any) -> Any:
    copied = object.__new__(attr.Attribute)
    for name in attr.Attribute.__slots__:  # type: ignore[attr-defined]
        object.__setattr__(copied, name, getattr(field, name))
    return copied


def install() -> None:
    """Make attrs use this builder."""
    attr._make._ClassBuilder = _LazyBuilder  # type: ignore[misc]
    attr.Attribute.__copy__ = _copy_field  # type: ignore[attr-defined]
