"""Validation of fields by their annotations: wrongly typed values are refused at once.

Otherwise an invalid value would be written, acknowledged, and then fail to load. So each class
passes its fields through :func:`conform_fields`, which gives them converters derived from their
annotations. Fields with a converter of their own keep it.
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
from vibe_llms.foundation.json_types import is_encodable
from vibe_llms.foundation.slotted_classes import find_copier

_T = TypeVar("_T")

CONFORMS = "vibe_llms.conforms"
"""Mark of fields whose derived converter can be skipped if types are known to be right."""

_NONE = type(None)
_NAMES: Mapping[Any, tuple[str, str]] = {
    str: ("a text", "Give a str; json.dumps makes one of data."),
    int: ("an integer of at most 64 bits", "Give an int in that range."),
    float: ("a finite number", "Give a finite float or int."),
    bool: ("true or false", "Give True or False."),
    bytes: ("bytes", "Give bytes; bytes(…) makes them of a buffer."),
}


def conform_fields(cls: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """Give each field a converter that accepts only values of its annotated type.

    Used as ``field_transformer``. Instances of subclasses of plain types (``class Name(str)``)
    become plain, values of an enumeration its members; ``True`` is not an integer.
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
    """Evaluate an annotation once per module; ``get_type_hints`` would do so once per class."""
    return eval(annotation, vars(sys.modules[module]))


def _conform(value: Any) -> Any: ...


_CONFORM_SIGNATURE = inspect.signature(_conform)
"""Signature of all converters, as attrs asks for that of each, and making one is slow."""


@functools.cache
def _derive_converter(name: str, hint: Any) -> attrs.Converter[Any, Any]:
    """Make the converter of a field. Cached, as making one is slow and many fields are alike."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds = typing.get_args(hint) if is_union else (hint,)
    for kind in kinds:
        if not isinstance(kind, type) and typing.get_origin(kind) is not typing.Literal:
            raise TypeError(f"{name} needs a converter of its own: {hint} cannot be derived.")
    exact_classes = frozenset(kind for kind in kinds if _is_decided_by_class(kind))
    number_checks = {kind: _NUMBER_CHECKS[kind] for kind in kinds if kind in (int, float)}
    coercible_kinds = [kind for kind in kinds if kind is not _NONE]
    literals = [kind for kind in kinds if typing.get_origin(kind) is typing.Literal]
    words = frozenset(word for kind in literals for word in typing.get_args(kind))

    def conform(value: Any) -> Any:
        if value.__class__ is str and str in exact_classes:
            # Most texts are ASCII, which has no surrogates, and Python checks that at once.
            if value.isascii() or is_encodable(value):
                return value
            raise _explain_surrogate(name, value)
        if value.__class__ in exact_classes or (value.__class__ is str and value in words):
            return value
        is_in_range = number_checks.get(value.__class__)  # fast path: most numbers are plain
        if is_in_range is not None and is_in_range(value):
            return value
        for kind in coercible_kinds:
            plain = _coerce(value, kind)
            if plain is not None:
                return conform(plain) if kind is str else plain
        raise _explain_misfit(f"{name} needs", name, value, coercible_kinds[0])

    conform.__signature__ = _CONFORM_SIGNATURE  # type: ignore[attr-defined]
    return attrs.Converter(conform)


def _explain_surrogate(name: str, text: str) -> RequestError:
    position = next(index for index, each in enumerate(text) if "\ud800" <= each <= "\udfff")
    return RequestError(
        path=name,
        detail=f"{name} has a lone surrogate (character {position + 1}): it cannot be encoded"
        " as UTF-8.",
        remedy="Read bytes with errors='replace', or use"
        " vibe_llms.foundation.json_types.escape_surrogates.",
    )


def _is_decided_by_class(kind: Any) -> bool:
    """Return whether every instance of exactly this class is valid; numbers have a range."""
    return isinstance(kind, type) and kind not in (int, float)


def _coerce(value: Any, kind: Any) -> Any:
    """Convert an instance of a subclass to the plain kind; ``None`` if it is of another kind."""
    if typing.get_origin(kind) is typing.Literal:
        return next((word for word in typing.get_args(kind) if word == value), None)
    if kind is float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(value) if is_number and _is_finite(value) else None
    if kind is int:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return int(value) if is_integer and _has_64_bits(value) else None
    if kind is str and isinstance(value, str):
        return str.__str__(value)  # str() calls the subclass's __str__, as of an enum
    if kind is bytes and isinstance(value, bytes):
        return bytes(value)
    if issubclass(kind, enum.Enum) and isinstance(value, str):
        return next((member for member in kind if member.value == value), None)
    return None


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the range of floats
        return False


def _has_64_bits(value: int) -> bool:
    return -(2**63) <= value < 2**64


_NUMBER_CHECKS: Mapping[Any, Callable[[Any], bool]] = {int: _has_64_bits, float: math.isfinite}


def evolve_unchecked(value: _T, **changes: Any) -> _T:
    """Copy a value with some fields changed to valid values.

    Nothing is validated. ``attrs.evolve`` validates all fields again, which for a long request
    takes seven times as long.
    """
    kind: Any = value.__class__
    changed: _T
    if not kind.__dictoffset__:
        changed = find_copier(kind)(value, **changes)
        return changed
    changed = object.__new__(kind)
    object.__setattr__(changed, "__dict__", value.__dict__ | changes)
    return changed


def ensure_members(
    values: Iterable[_T], classes: tuple[type[Any], ...], field: str
) -> tuple[_T, ...]:
    """Return values as a tuple; check that each is of one of the classes.

    Args:
        values: Several values; a text or a mapping counts as one value and is refused.
        classes: Classes of this library, or ``str``.
        field: The name of the field, for the error.

    Raises:
        RequestError: A value is of another class.
    """
    if values.__class__ is tuple and not values:
        return ()
    is_sequence = values.__class__ is tuple or values.__class__ is list  # fast path
    if not is_sequence and (
        not isinstance(values, Iterable) or isinstance(values, (str, bytes, Mapping))
    ):
        raise _explain_misfit(f"{field} needs a list, each item", field, values, *classes)
    members = tuple(values)
    if str not in classes and {*map(type, members)}.issubset(classes):
        return members  # fast path for conversations, which may be long
    for index, member in enumerate(members):
        path = f"{field}[{index}]"
        if member.__class__ is str and not is_encodable(cast("str", member)):
            raise _explain_surrogate(path, cast("str", member))
        if member.__class__ not in classes:
            if classes == (str,) and isinstance(member, str):  # of a subclass: make all plain
                return ensure_members(map(str.__str__, members), classes, field)  # type: ignore
            raise _explain_misfit(f"{path} needs", path, member, *classes)
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
