"""Partial values of a type, while the rest of an answer is still being received."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.instruments.parsers.json_reader import GrowingText, is_growing
from vibe_llms.invocables.argument_faults import Misfit
from vibe_llms.invocables.members import is_pydantic, is_typed_dict, list_members, read_hints
from vibe_llms.invocables.plain_shapes import Shape
from vibe_llms.invocables.schema_derivation import ARRAYS, OBJECTS, Deriver


@frozen
class NamedField:
    """One named value of a class: its name in JSON, and its type."""

    key: str
    hint: Any


class Partial:
    """Partial object: its attributes are ``ABSENT`` until they are received.

    A text appears while it is still growing. Objects and arrays within are partial themselves. Any
    other value appears when it is complete, converted to its type; a value that does not fit its
    type stays absent. Nothing is validated before the whole answer was received.
    """

    __slots__ = ("_fields", "_name", "_received")

    def __init__(
        self, name: str, fields: Mapping[str, NamedField], received: Mapping[str, Any]
    ) -> None:
        self._name = name
        self._fields = fields
        self._received = received

    def __getattr__(self, name: str) -> Any:
        field = self._fields.get(name)
        if field is None:
            raise AttributeError(f"{self._name} has no attribute {name!r}")
        return view(field.hint, self._received.get(field.key, ABSENT))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partial):
            return NotImplemented
        return self._fields == other._fields and self._received == other._received

    __hash__ = None  # type: ignore[assignment]  # holds a dictionary

    def __repr__(self) -> str:
        received = ", ".join(f"{name}={value!r}" for name, value in survey_received(self).items())
        return f"Partial[{self._name}]({received})"


def survey_received(partial: Partial) -> dict[str, Any]:
    """Return the received attributes by name."""
    named = {name: getattr(partial, name) for name in partial._fields}
    return {name: value for name, value in named.items() if value is not ABSENT}


def view(hint: Any, value: Any) -> Any:
    """Return a partial value as its Python type.

    Args:
        value: A reader's value; ``ABSENT`` if nothing was received.
    """
    hint = unwrap(hint)
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    kind = origin or hint
    if value is ABSENT or hint is Any or hint is object:
        return value
    if origin in (typing.Union, types.UnionType):
        return _view_union(members, value)
    if kind is tuple or kind in ARRAYS:
        return _view_array(kind, members, value) if isinstance(value, list) else ABSENT
    if kind in OBJECTS:
        item = members[1] if len(members) == 2 else Any
        return _view_members(value, lambda _: item)
    fields = list_fields(kind) if isinstance(kind, type) else None
    if fields is not None:
        return _view_object(kind, fields, value)
    return _view_plain(hint, value)


def unwrap(hint: Any) -> Any:
    """Return a type without aliases and annotations."""
    hint = getattr(hint, "__value__", hint)  # type X = …
    hint = getattr(hint, "__supertype__", hint)  # NewType
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint


class PartialList(Sequence[Any]):
    """Partial array: the items received so far, of which the last may be partial.

    Items are created on access, because users mostly read only the new ones.
    """

    __slots__ = ("_count", "_hint", "_received")

    def __init__(self, hint: Any, received: Sequence[Any]) -> None:
        self._hint = hint
        self._received = received
        self._count = len(received)
        # The last item is left out if no part of it can be shown yet.
        if received and view(hint, received[-1]) is ABSENT:
            self._count -= 1

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [view(self._hint, each) for each in self._received[: self._count][index]]
        return view(self._hint, self._received[range(self._count)[index]])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, PartialList)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # unhashable, as a list

    def __repr__(self) -> str:
        return repr(self[:])


def _view_array(kind: Any, members: tuple[Any, ...], value: list[Any]) -> Any:
    is_record = kind is tuple and members and members[-1] is not Ellipsis
    if is_record:
        items = [view(hint, each) for hint, each in zip(members, value, strict=False)]
        return tuple(items[: items.index(ABSENT)] if ABSENT in items else items)
    hint, make = members[0] if members else Any, ARRAYS.get(kind, tuple)
    if make is list or make is tuple:
        return PartialList(hint, value)
    # Without growing texts: at each change, a set would get another member.
    items = [view(hint, each) for each in value if not is_growing(each)]
    try:
        return make([each for each in items if each is not ABSENT])
    except TypeError:  # a partial value cannot be a member of a set
        return ABSENT


def _view_members(value: Any, find_hint: Callable[[str], Any]) -> Any:
    if not isinstance(value, dict):
        return ABSENT
    viewed = {name: view(find_hint(name), each) for name, each in value.items()}
    return {name: each for name, each in viewed.items() if each is not ABSENT}


def _view_object(kind: Any, fields: Mapping[str, NamedField], value: Any) -> Any:
    if getattr(kind, "__pydantic_root_model__", False):
        return view(fields["root"].hint, value)
    if not isinstance(value, dict):
        return ABSENT
    if is_typed_dict(kind):
        return _view_members(value, lambda name: fields[name].hint if name in fields else Any)
    return Partial(kind.__name__, fields, value)


def _view_plain(hint: Any, value: Any) -> Any:
    if is_growing(value):
        return value if hint is str and isinstance(value, GrowingText) else ABSENT
    try:
        return _derive(hint).convert(value)
    except Misfit:
        return ABSENT
    except RequestError:  # a type that only pydantic supports
        return value


@functools.lru_cache(maxsize=256)
def _derive(hint: Any) -> Shape:
    return Deriver().derive(hint, "a partial value")


def _view_union(members: tuple[Any, ...], value: Any) -> Any:
    hints = [unwrap(member) for member in members]
    if isinstance(value, dict):
        return _view_union_object(hints, value)
    if isinstance(value, GrowingText) and not all(map(_can_show_growth, hints)):
        return ABSENT
    views = (view(hint, value) for hint in hints)
    return next((each for each in views if each is not ABSENT), ABSENT)


def _can_show_growth(hint: Any) -> bool:
    """Return whether a growing text can be shown although its union has this member.

    If not, the complete text may become another type than a text, such as a date.
    """
    if hint in (str, int, float, bool, None, type(None)):
        return True
    kind = typing.get_origin(hint) or hint
    is_container = kind is tuple or kind in ARRAYS or kind in OBJECTS
    return is_container or (isinstance(kind, type) and list_fields(kind) is not None)


def _view_union_object(hints: list[Any], value: dict[str, Any]) -> Any:
    """Return a partial object that has the fields of all classes of a union that still match."""
    classes = {
        hint: fields
        for hint in hints
        if isinstance(hint, type) and (fields := list_fields(hint)) is not None
    }
    possible = {kind: fields for kind, fields in classes.items() if _is_possible(fields, value)}
    if not possible:
        others = (view(hint, value) for hint in hints if hint not in classes)
        return next((each for each in others if each is not ABSENT), ABSENT)
    if len(possible) == 1 or any(map(is_typed_dict, possible)):
        return view(next(iter(possible)), value)
    merged: dict[str, NamedField] = {}
    for fields in possible.values():
        merged = {**fields, **merged}
    return Partial(" | ".join(kind.__name__ for kind in possible), merged, value)


def _is_possible(fields: Mapping[str, NamedField], value: dict[str, Any]) -> bool:
    """Return whether a class with these fields can have all members received so far."""
    hints = {field.key: field.hint for field in fields.values()}
    return all(
        name in hints and (is_growing(member) or view(hints[name], member) is not ABSENT)
        for name, member in value.items()
    )


@functools.lru_cache(maxsize=256)
def list_fields(kind: Any) -> Mapping[str, NamedField] | None:
    """Return the fields of a class by the names of its attributes; ``None`` for any other type."""
    if is_pydantic(kind):
        return {
            name: NamedField(info.validation_alias or info.alias or name, info.annotation)
            for name, info in kind.model_fields.items()
        }
    if attrs.has(kind):
        hints = read_hints(kind, kind.__name__)
        return {
            each.name: NamedField(each.alias or each.name, hints.get(each.name, Any))
            for each in attrs.fields(kind)
            if each.init
        }
    members = list_members(kind, kind.__name__)
    if members is None:
        return None
    return {name: NamedField(name, member.hint) for name, member in members.fields.items()}
