"""Values of the types of the anthropic SDK, and checks of values against them."""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from typing_extensions import get_type_hints, is_typeddict


def spread(annotation: Any) -> Iterator[Any]:
    """Yield the members of a union, however deeply it is nested."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        yield from spread(typing.get_args(annotation)[0])
    elif origin is typing.Union or (origin is not None and origin.__name__ == "UnionType"):
        for member in typing.get_args(annotation):
            yield from spread(member)
    else:
        yield annotation


@functools.cache
def access_hints(cls: Any, *, further: bool) -> Mapping[str, Any]:
    """Return the annotations of a class of the SDK by the names on the wire."""
    if is_typeddict(cls):
        needed = get_type_hints(cls, include_extras=True)
        return {
            name.rstrip("_"): hint
            for name, hint in get_type_hints(cls).items()
            if further or typing.get_origin(needed[name]) is typing.Required
        }
    return {
        field.alias or name: field.annotation
        for name, field in cls.model_fields.items()
        if further or field.is_required()
    }


def fabricate(annotation: Any, *, further: bool = False) -> Any:
    """Create the smallest value of an SDK annotation; with ``further``, with all fields."""
    annotation = next(member for member in spread(annotation) if member is not type(None))
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return args[0]
    if origin in (list, Iterable) or getattr(origin, "__name__", "") in ("Iterable", "Sequence"):
        return [fabricate(args[0])]
    if origin is dict or annotation is object:
        return {}
    if is_typeddict(annotation) or (
        isinstance(annotation, type) and issubclass(annotation, BaseModel)
    ):
        hints = access_hints(annotation, further=further)
        return {name: fabricate(hint) for name, hint in hints.items()}
    if annotation is str:
        return "QUJD"
    if annotation in (int, float):
        return 1
    if annotation is bool:
        return True
    return "2026-11-22T00:00:00Z"


def survey(union: Any) -> list[Any]:
    """Create two values for each member of a union: the smallest, and one with all fields."""
    members = [member for member in spread(union) if member is not str]
    return [fabricate(each, further=further) for each in members for further in (False, True)]


def find_misfit(value: Any, annotation: Any, path: str = "$") -> str | None:
    """Return the path at which a value does not match an SDK annotation; ``None`` if it matches.

    Unknown fields do not match.
    """
    misfits = [_find_misfit(value, member, path) for member in spread(annotation)]
    return None if None in misfits else max((misfit or "" for misfit in misfits), key=len)


def _find_misfit(value: Any, annotation: Any, path: str) -> str | None:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is object or annotation is Any:
        return None
    if origin is typing.Literal:
        return None if value in args else path
    if is_typeddict(annotation):
        return _find_field(value, annotation, path)
    if origin is dict:
        return None if isinstance(value, dict) else path
    if origin is not None:
        if not isinstance(value, list):
            return path
        found = (find_misfit(item, args[0], f"{path}[{i}]") for i, item in enumerate(value))
        return next((misfit for misfit in found if misfit is not None), None)
    if isinstance(value, bool):
        return None if annotation is bool else path
    if annotation is float:
        return None if isinstance(value, int | float) else path
    return None if isinstance(annotation, type) and isinstance(value, annotation) else path


def _find_field(value: Any, annotation: Any, path: str) -> str | None:
    if not isinstance(value, dict):
        return path
    hints = access_hints(annotation, further=True)
    for name in access_hints(annotation, further=False):
        if name not in value:
            return f"{path}.{name}"
    for name, item in value.items():
        if name not in hints:
            return f"{path}.{name}"
        misfit = find_misfit(item, hints[name], f"{path}.{name}")
        if misfit is not None:
            return misfit
    return None
