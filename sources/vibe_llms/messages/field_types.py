"""Fields that hold what their annotations say: whatever else is given is refused at once.

A wrongly typed value would be written, acknowledged, and then not read again. So each class
passes its fields through :func:`conform_fields`, which gives them converters derived from their
annotations. A field with a converter of its own is left to it.
"""

from __future__ import annotations

import enum
import functools
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import is_whole

_T = TypeVar("_T")

CONFORMS = "vibe_llms.conforms"
"""The mark on fields whose derived converter has nothing to do where types are known to fit."""

_NONE = type(None)
_NAMES: Mapping[Any, tuple[str, str]] = {
    str: ("a text", "Give a str; json.dumps makes one of data."),
    int: ("an integer of at most 64 bits", "Give an int in that range."),
    float: ("a finite number", "Give a finite float or int."),
    bool: ("true or false", "Give True or False."),
    bytes: ("bytes", "Give bytes; bytes(…) makes them of a buffer."),
}


def conform_fields(cls: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """Gives each field a converter which lets only what its annotation names pass.

    For ``field_transformer``. Subclasses of plain types (``class Name(str)``) become plain,
    words of an enumeration its members; ``True`` is no integer.
    """
    own = inspect.get_annotations(cls)
    return [
        field
        if field.converter is not None or not field.init or field.name not in own
        else field.evolve(
            converter=_derive_converter(field.name, _resolve(cls.__module__, own[field.name])),
            metadata={**field.metadata, CONFORMS: True},
        )
        for field in fields
    ]


@functools.cache
def _resolve(module: str, annotation: str) -> Any:
    """Evaluates an annotation, once a module: ``get_type_hints`` would, once a class."""
    return eval(annotation, vars(sys.modules[module]))


@functools.cache
def _derive_converter(name: str, hint: Any) -> attrs.Converter[Any, Any]:
    """Makes the converter of a field; the same one for fields that are alike, as it costs."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds = typing.get_args(hint) if is_union else (hint,)
    for kind in kinds:
        if not isinstance(kind, type) and typing.get_origin(kind) is not typing.Literal:
            raise TypeError(f"{name} needs a converter of its own: {hint} cannot be derived.")
    admitted = frozenset(kind for kind in kinds if _is_told_by_class(kind))
    bounded = {kind: _BOUNDS[kind] for kind in kinds if kind in (int, float)}
    wanted = [kind for kind in kinds if kind is not _NONE]
    literals = [kind for kind in kinds if typing.get_origin(kind) is typing.Literal]
    words = frozenset(word for kind in literals for word in typing.get_args(kind))

    def conform(value: Any) -> Any:
        if value.__class__ is str and str in admitted:
            # Most are ASCII, in which there are no halves, and Python knows that at once.
            if value.isascii() or is_whole(value):
                return value
            raise _explain_half(name, value)
        if value.__class__ in admitted or (value.__class__ is str and value in words):
            return value
        fits = bounded.get(value.__class__)  # most numbers are plain, and go no further
        if fits is not None and fits(value):
            return value
        for kind in wanted:
            plain = _coerce(value, kind)
            if plain is not None:
                return conform(plain) if kind is str else plain
        raise _explain_misfit(f"{name} needs", name, value, wanted[0])

    return attrs.Converter(conform)


def _explain_half(name: str, text: str) -> RequestError:
    place = next(index for index, each in enumerate(text) if "\ud800" <= each <= "\udfff")
    return RequestError(
        path=name,
        detail=f"{name} holds half of a surrogate pair, its character {place + 1}: no text can be"
        " written with it.",
        remedy="Read bytes with errors='replace', or use"
        " vibe_llms.foundation.json_types.escape_halves.",
    )


def _is_told_by_class(kind: Any) -> bool:
    """Tells whether every instance of exactly this class will do; some numbers will not."""
    return isinstance(kind, type) and kind not in (int, float)


def _coerce(value: Any, kind: Any) -> Any:
    """Returns the value as a plain one of a kind; ``None`` where it is none."""
    if typing.get_origin(kind) is typing.Literal:
        return next((word for word in typing.get_args(kind) if word == value), None)
    if kind is float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(value) if is_number and _is_finite(value) else None
    if kind is int:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return int(value) if is_integer and _has_64_bits(value) else None
    if kind is str and isinstance(value, str):
        return str.__str__(value)  # str() would ask the subclass, and an enumeration answers other
    if kind is bytes and isinstance(value, bytes):
        return bytes(value)
    if issubclass(kind, enum.Enum) and isinstance(value, str):
        return next((member for member in kind if member.value == value), None)
    return None


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def _has_64_bits(value: int) -> bool:
    return -(2**63) <= value < 2**64


_BOUNDS: Mapping[Any, Callable[[Any], bool]] = {int: _has_64_bits, float: math.isfinite}


def renew(value: _T, **changes: Any) -> _T:
    """Returns a value of a class without slots, with fields changed to what is known to be right.

    ``attrs.evolve`` checks the others once more, which for a long request takes seven times as
    long.
    """
    made: _T = object.__new__(value.__class__)
    object.__setattr__(made, "__dict__", value.__dict__ | changes)
    return made


def ensure_members(
    given: Iterable[_T], classes: tuple[type[Any], ...], field: str
) -> tuple[_T, ...]:
    """Makes a tuple of what a caller gives, of which every member is of one of the classes.

    Args:
        given: Several; a text or an object counts as one, and is refused.
        classes: Those of ours, or ``str``.
        field: The name of the field, for the error.

    Raises:
        RequestError: Something among them is of another class.
    """
    if given.__class__ is tuple and not given:
        return ()
    is_plain = given.__class__ is tuple or given.__class__ is list  # and needs no further question
    if not is_plain and (
        not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping))
    ):
        raise _explain_misfit(f"{field} needs a list, each", field, given, *classes)
    members = tuple(given)
    if str not in classes and {*map(type, members)}.issubset(classes):
        return members  # as of a conversation, which may be long
    for index, member in enumerate(members):
        if member.__class__ is str and not is_whole(cast("str", member)):
            raise _explain_half(f"{field}[{index}]", cast("str", member))
        if member.__class__ not in classes:
            place = f"{field}[{index}]"
            if classes == (str,) and isinstance(member, str):
                return ensure_members(map(str.__str__, members), classes, field)  # type: ignore
            raise _explain_misfit(f"{place} needs", place, member, *classes)
    return members


def _explain_misfit(rule: str, path: str, value: object, *kinds: Any) -> RequestError:
    first = kinds[0]
    if first in _NAMES:
        wanted, remedy = _NAMES[first]
    elif attrs.has(first):
        names = ", ".join(kind.__name__ for kind in kinds)
        wanted, remedy = f"one of {names}" if kinds[1:] else f"a {names}", f"Use {names}."
    else:
        words = typing.get_args(first) or tuple(first)
        wanted = f"one of {', '.join(map(str, words))}"
        remedy = "Use one of these words."
    shown = (
        repr(value)
        if isinstance(value, (bool, float))
        else f"a value of type {type(value).__name__}"
    )
    if isinstance(value, str) and remedy.endswith("words."):
        shown = repr(value[:40])
    return RequestError(path=path, detail=f"{rule} {wanted}, not {shown}.", remedy=remedy)
