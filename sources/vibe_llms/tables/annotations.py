"""Kinds of the values in a table, derived from the annotations of an attrs class.

A field with a default is optional. ``bool``, ``int``, ``float``, ``str`` and ``Path`` accept values
of these types; a text must not be empty, unless it is a ``String``. Further rules are annotated
with a :class:`Kind`::

    @frozen(kw_only=True)
    class Server:
        command: str
        arguments: Strings = ()
        seconds: Seconds = 30.0
        era: Literal["old", "new"] | None = None
        oauth: OAuth | None = None  # another attrs class: a nested table

Rules between fields are in a method ``find_mistakes``, which yields the name of a field and a
message. :func:`require` calls it when a program creates the value; the reader calls it for a value
from a file, and adds the file and line.
"""

from __future__ import annotations

import collections.abc
import datetime
import enum
import functools
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import attrs

from vibe_llms.foundation.files import expand_home
from vibe_llms.tables.kinds import (
    AMOUNT,
    BOOLEAN,
    COUNT,
    FAULTY,
    NUMBER,
    SECONDS,
    STRING,
    STRINGS,
    TABLE,
    TABLE_OF_TEXTS,
    TEXT,
    TEXTS,
    WAIT,
    WHOLE,
    Choice,
    Kind,
    KindReader,
    is_list,
    is_text,
)
from vibe_llms.tables.paths import KeyPath


def _is_date(value: Any) -> bool:
    try:
        return bool(datetime.date.fromisoformat(f"{value}"))
    except ValueError:
        return False


DATE = Kind("a date such as 2026-11-21", _is_date, str)

# Annotations for fields whose type alone does not say which values are valid.
Amount: TypeAlias = Annotated[int, AMOUNT]
Date: TypeAlias = Annotated[str, DATE]
Count: TypeAlias = Annotated[int, COUNT]
Seconds: TypeAlias = Annotated[float, SECONDS]
Wait: TypeAlias = Annotated[float, WAIT]
String: TypeAlias = Annotated[str, STRING]
Strings: TypeAlias = Annotated[tuple[str, ...], STRINGS]


@functools.cache
def survey_kinds(cls: Any) -> Mapping[str, Kind]:
    """Return the kind of each field of an attrs class."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {
        field.name: derive_kind(hints[field.name]) for field in cls.__attrs_attrs__ if field.init
    }


def derive_kind(hint: Any) -> Kind:
    """Return the kind of values that an annotation allows."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return next(each for each in hint.__metadata__ if isinstance(each, Kind))
    if origin in (typing.Union, types.UnionType):
        (inner,) = (each for each in arguments if each is not types.NoneType)
        return OptionalKind(derive_kind(inner))
    if origin is typing.Literal:
        return Choice(arguments)
    if origin is tuple:
        return TEXTS if arguments[0] is str else ListKind(derive_kind(arguments[0]))
    if origin is collections.abc.Mapping:
        if typing.get_origin(arguments[1]) is typing.Annotated:
            return MappingKind(derive_kind(arguments[1]))
        return TABLE_OF_TEXTS if arguments[1] is str else TABLE
    if hint in _KINDS:
        return _KINDS[hint]
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return Choice(hint, hint)
    if hasattr(hint, "__attrs_attrs__"):
        return TableKind(hint)
    raise TypeError(f"The annotation {hint!r} does not say what values are allowed.")


class TableKind(Kind):
    """Nested table, converted to a value of an attrs class."""

    __slots__ = ("cls",)

    def __init__(self, cls: type) -> None:
        super().__init__(TABLE.words, TABLE.is_valid)
        self.cls = cls

    def read(self, value: Any, path: KeyPath, reader: KindReader) -> Any:
        if isinstance(value, self.cls):  # created by a program
            return value
        result = reader.read(self.cls, value, path)
        return FAULTY if result is None else result


class ListKind(Kind):
    """List of values of one kind."""

    __slots__ = ("element",)

    def __init__(self, element: Kind) -> None:
        super().__init__(f"a list, each element {element.words}", is_list)
        self.element = element

    def read(self, value: Any, path: KeyPath, reader: KindReader) -> Any:
        if super().read(value, path, reader) is FAULTY:
            return FAULTY
        elements = [
            self.element.read(each, (*path, index), reader) for index, each in enumerate(value)
        ]
        return FAULTY if any(each is FAULTY for each in elements) else tuple(elements)


class MappingKind(Kind):
    """Table with arbitrary keys and values of one kind."""

    __slots__ = ("element",)

    def __init__(self, element: Kind) -> None:
        super().__init__(f"a table, each value {element.words}", TABLE.is_valid)
        self.element = element

    def read(self, value: Any, path: KeyPath, reader: KindReader) -> Any:
        elements = {
            name: self.element.read(each, (*path, name), reader)
            for name, each in reader.survey(path, value)
        }
        is_faulty = not isinstance(value, Mapping) or any(
            each is FAULTY for each in elements.values()
        )
        return FAULTY if is_faulty else elements


class PathKind(Kind):
    """Path; a relative one starts at the directory of the file."""

    __slots__ = ()

    def read(self, value: Any, path: KeyPath, reader: KindReader) -> Any:
        text = super().read(value, path, reader)
        return text if text is FAULTY else reader.base / expand_home(text)


class OptionalKind(Kind):
    """Value or ``None``, in formats that have a null."""

    __slots__ = ("inner",)

    def __init__(self, inner: Kind) -> None:
        super().__init__(inner.words, inner.is_valid)
        self.inner = inner

    def read(self, value: Any, path: KeyPath, reader: KindReader) -> Any:
        return None if value is None else self.inner.read(value, path, reader)


_KINDS: Mapping[Any, Kind] = {
    bool: BOOLEAN,
    int: WHOLE,
    float: NUMBER,
    str: TEXT,
    Path: PathKind("a path", lambda value: isinstance(value, Path) or is_text(value)),
}


@functools.cache
def survey_required(cls: Any) -> frozenset[str]:
    """Return the fields of an attrs class that have no default."""
    return frozenset(
        field.name for field in cls.__attrs_attrs__ if field.init and field.default is attrs.NOTHING
    )
