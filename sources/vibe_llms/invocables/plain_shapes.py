"""Shapes of plain Python types: strings, numbers, and types that JSON writes as strings."""

from __future__ import annotations

import base64
import datetime
import decimal
import pathlib
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.argument_faults import Misfit

Convert = Callable[[Any], Any]


@frozen
class Shape:
    """Schema of a type, and the conversion of JSON values to the type, which raises Misfit."""

    schema: dict[str, Any]
    convert: Convert


def convert_at(convert: Convert, value: Any, place: str) -> Any:
    """Convert a part of a value; add its place to the path of a Misfit."""
    try:
        return convert(value)
    except Misfit as misfit:
        raise misfit.move(place) from misfit


def _pass_through(value: Any) -> Any:
    return value


def _produce_exact(kind: type, rule: str) -> Convert:
    def convert(value: Any) -> Any:
        if value.__class__ is kind:
            return value
        raise Misfit(rule)

    return convert


def _convert_integer(value: Any) -> int:
    # Compare classes, because isinstance accepts True as an int, which JSON does not.
    if value.__class__ is int:
        return value
    if value.__class__ is float and value.is_integer():
        return int(value)  # in JSON, 1.0 is an integer
    raise Misfit("must be an integer")


def _convert_number(value: Any) -> float:
    if value.__class__ is float or value.__class__ is int:
        try:
            return float(value)
        except OverflowError as error:  # integers of JSON are unbounded
            raise Misfit("is too large a number") from error
    raise Misfit("must be a number")


def _produce_parsed(parse: Callable[[str], Any], description: str) -> Convert:
    def convert(value: Any) -> Any:
        if value.__class__ is not str:
            raise Misfit("must be a string")
        try:
            return parse(value)
        # decimal raises ArithmeticError, which is not a ValueError.
        except (ValueError, ArithmeticError) as error:
            raise Misfit(f"must be {description}") from error

    return convert


def _parse_bytes(text: str) -> bytes:
    # Without validate, invalid characters would be dropped silently.
    return base64.b64decode(text, validate=True)


_PLAIN: Final[Mapping[Any, Shape]] = {
    Any: Shape({}, _pass_through),
    object: Shape({}, _pass_through),
    None: Shape({"type": "null"}, _produce_exact(type(None), "must be null")),
    type(None): Shape({"type": "null"}, _produce_exact(type(None), "must be null")),
    bool: Shape({"type": "boolean"}, _produce_exact(bool, "must be true or false")),
    str: Shape({"type": "string"}, _produce_exact(str, "must be a string")),
    int: Shape({"type": "integer"}, _convert_integer),
    float: Shape({"type": "number"}, _convert_number),
}
_PARSED: Final[tuple[tuple[type, dict[str, Any], Callable[[str], Any], str], ...]] = (
    (
        datetime.datetime,
        {"format": "date-time"},
        datetime.datetime.fromisoformat,
        "a date and time, such as 2026-01-31T12:00:00Z",
    ),
    (datetime.date, {"format": "date"}, datetime.date.fromisoformat, "a date: 2026-01-31"),
    (datetime.time, {"format": "time"}, datetime.time.fromisoformat, "a time: 12:00:00"),
    (uuid.UUID, {"format": "uuid"}, uuid.UUID, "a UUID"),
    (decimal.Decimal, {}, decimal.Decimal, "a decimal number, as a string"),
    (bytes, {"contentEncoding": "base64"}, _parse_bytes, "bytes in base64"),
    (pathlib.Path, {}, pathlib.Path, "a path"),
    (pathlib.PurePath, {}, pathlib.PurePath, "a path"),
)
_PARSED_SHAPES: Final = {
    kind: Shape({"type": "string", **extra}, _produce_parsed(parse, description))
    for kind, extra, parse, description in _PARSED
}


def find_plain(hint: Any) -> Shape | None:
    """Return the shape of a plain type; ``None`` for any other."""
    try:
        return _PLAIN.get(hint) or _PARSED_SHAPES.get(hint)
    except TypeError:  # an unhashable hint, such as Annotated[int, []]
        return None
