"""Members of attrs classes, dataclasses, TypedDicts and NamedTuples."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen


@frozen
class Member:
    """One member of a class: the annotated type, and whether the member is required."""

    hint: Any
    is_required: bool


@frozen
class Members:
    """Members of a class by name, and the constructor of the class."""

    fields: Mapping[str, Member]
    make: Callable[..., Any]


def is_pydantic(kind: Any) -> bool:
    """Return whether a class is one of pydantic's, without importing pydantic."""
    return hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate")


def is_typed_dict(kind: Any) -> bool:
    """Return whether a class is a TypedDict of ``typing`` or ``typing_extensions``."""
    return typing.is_typeddict(kind) or (
        isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__required_keys__")
    )


def list_members(kind: Any, place: str) -> Members | None:
    """Return the members of a class; ``None`` for a class of another kind.

    Raises:
        RequestError: The annotations of the class cannot be read.
    """
    if is_typed_dict(kind):
        required = kind.__required_keys__
        hints = read_hints(kind, place)
        fields = {name: _read_key(hint, name in required) for name, hint in hints.items()}
        return Members(fields, kind)
    if attrs.has(kind):
        return _list_attrs(kind, place)
    if dataclasses.is_dataclass(kind):
        return _list_dataclass(kind, place)
    # Only a NamedTuple has this attribute, unlike other tuples.
    if issubclass(kind, tuple) and hasattr(kind, "_field_defaults"):
        hints, defaults = read_hints(kind, place), kind._field_defaults
        fields = {name: Member(hint, name not in defaults) for name, hint in hints.items()}
        return Members(fields, kind)
    return None


def _list_attrs(kind: Any, place: str) -> Members:
    hints = read_hints(kind, place)
    fields = {
        # The constructor of an attrs class takes a private field _x as x.
        field.alias or field.name: Member(
            hints.get(field.name, Any), field.default is attrs.NOTHING
        )
        for field in attrs.fields(kind)
        if field.init
    }
    return Members(fields, kind)


def _list_dataclass(kind: Any, place: str) -> Members:
    hints = read_hints(kind, place)
    missing = dataclasses.MISSING
    fields = {
        field.name: Member(
            hints[field.name], field.default is missing and field.default_factory is missing
        )
        for field in dataclasses.fields(kind)
        if field.init
    }
    return Members(fields, kind)


_READ_ONLY = getattr(typing, "ReadOnly", None)  # since Python 3.13


def _read_key(hint: Any, is_required: bool) -> Member:
    """Read a key of a TypedDict, whose ``__required_keys__`` are wrong for string annotations."""
    while (origin := typing.get_origin(hint)) is not None and origin in (
        typing.Required,
        typing.NotRequired,
        _READ_ONLY,
    ):
        if origin is not _READ_ONLY:
            is_required = origin is typing.Required
        hint = typing.get_args(hint)[0]
    return Member(hint, is_required)


def read_hints(annotated: Any, place: str) -> dict[str, Any]:
    """Return the evaluated annotations of a class or a function.

    Raises:
        RequestError: An annotation contains an unknown name.
    """
    if type(annotated) is types.FunctionType and (hints := _read_names(annotated)) is not None:
        return hints
    try:
        return typing.get_type_hints(inspect.unwrap(annotated), include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise RequestError(
            path=place,
            detail=f"Cannot read the annotations of {place}: {error}.",
            remedy="Define or import the annotated types before it, not only under "
            "TYPE_CHECKING; or pass a schema.",
            stage=Stage.CONFIGURE,
        ) from error


def _read_names(function: types.FunctionType) -> dict[str, Any] | None:
    """Fast path: evaluate annotations that are classes, or names of classes.

    ``typing`` compiles each annotation that is a string, which takes 10 µs.

    Returns:
        The annotations; ``None`` if a type is not a class, or a name refers to another object.
    """
    if "__wrapped__" in function.__dict__ or getattr(function, "__type_params__", None):
        return None
    names, hints = function.__globals__, {}
    for name, hint in function.__annotations__.items():
        if type(hint) is str:
            hint = names[hint] if hint in names else getattr(builtins, hint, None)
        if type(hint) is not type:
            return None
        hints[name] = hint
    return hints
