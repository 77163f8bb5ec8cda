"""Derivation of a JSON Schema from a Python type, with the conversion of values to that type.

Schema and conversion agree: the conversion accepts the values that match the schema, and no others.
It is stricter only where JSON Schema cannot express a rule, as for a date that does not exist or a
class that rejects some values.
"""

from __future__ import annotations

import collections.abc
import enum
import types
import typing
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.invocables.argument_faults import Misfit
from vibe_llms.invocables.members import Members, is_pydantic, list_members
from vibe_llms.invocables.plain_shapes import Convert, Shape, convert_at, find_plain


def refuse_type(place: str, hint: Any) -> RequestError:
    """Create the error for a type without a counterpart in JSON."""
    return RequestError(
        path=place,
        detail=f"{place} is annotated with {hint!r}, which has no counterpart in JSON.",
        remedy="Annotate it with plain types, enumerations or classes of these, or pass a schema.",
        stage=Stage.CONFIGURE,
    )


ARRAYS: Final[Mapping[Any, Callable[[list[Any]], Any]]] = {
    list: list,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    set: set,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    frozenset: frozenset,
}
OBJECTS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


@define
class Deriver:
    """Derives shapes, and collects the definitions of recursive classes.

    Attributes:
        context: Passed to the validators of pydantic's classes.
        definitions: The collected definitions, for ``$defs``, by their names.
    """

    context: Any = None
    definitions: dict[str, Any] = attrs.field(factory=dict)
    _shapes: dict[Any, Shape] = attrs.field(factory=dict, init=False)
    _active: dict[Any, str] = attrs.field(factory=dict, init=False)
    _recursive: set[Any] = attrs.field(factory=set, init=False)

    def derive(self, hint: Any, place: str) -> Shape:
        """Return the shape of a type.

        Args:
            place: The function and the parameter, for the error.

        Raises:
            RequestError: The type has no counterpart in JSON.
        """
        if (plain := find_plain(hint)) is not None:
            return plain
        for attribute in ("__value__", "__supertype__"):  # an alias: type X = …, and a NewType
            if (aliased := getattr(hint, attribute, None)) is not None:
                return self.derive(aliased, place)
        origin, members = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return self._derive_annotated(members, place)
        if origin is typing.Literal:
            return _derive_choices({choice: choice for choice in members}, hint, place)
        if origin in (typing.Union, types.UnionType):
            return self._derive_union(members, place)
        kind = origin or hint
        if kind is tuple:
            return self._derive_tuple(members, place)
        if kind in ARRAYS:
            return self._derive_array(kind, members or (Any,), place)
        if kind in OBJECTS:
            return self._derive_mapping(members or (str, Any), hint, place)
        if isinstance(kind, type) and origin is None:
            return self._derive_class(kind, place)
        raise refuse_type(place, hint)

    def _derive_annotated(self, members: tuple[Any, ...], place: str) -> Shape:
        shape = self.derive(members[0], place)
        description = next((item for item in members[1:] if isinstance(item, str)), "")
        if not description:
            return shape
        return attrs.evolve(shape, schema={**shape.schema, "description": description})

    def _derive_union(self, members: tuple[Any, ...], place: str) -> Shape:
        shapes = [self.derive(member, place) for member in members]
        converts = tuple(shape.convert for shape in shapes)

        def convert(value: Any) -> Any:
            closest = None
            for each in converts:
                try:
                    return each(value)
                except Misfit as misfit:
                    # Report the fault of the alternative that matched deepest, as the intended one.
                    if closest is None or misfit.path.count(".") > closest.path.count("."):
                        closest = misfit
            assert closest is not None
            raise closest

        return Shape({"anyOf": [shape.schema for shape in shapes]}, convert)

    def _derive_array(self, kind: Any, members: tuple[Any, ...], place: str) -> Shape:
        item, make = self.derive(members[0], place), ARRAYS[kind]
        schema: dict[str, Any] = {"type": "array", "items": item.schema}
        if make is list:
            return Shape(schema, lambda value: _convert_items(value, item.convert))

        def convert(value: Any) -> Any:
            items = _convert_items(value, item.convert)
            try:
                collection = make(items)
            except TypeError as error:
                raise Misfit("must contain only plain values") from error
            # The schema accepts different texts for one value, for example a UUID in capitals.
            if len(collection) != len(items):
                raise Misfit("must not have the same item twice")
            return collection

        return Shape({**schema, "uniqueItems": True}, convert)

    def _derive_tuple(self, members: tuple[Any, ...], place: str) -> Shape:
        if not members or members[-1] is Ellipsis:
            item = self.derive(members[0] if members else Any, place)
            schema = {"type": "array", "items": item.schema}
            return Shape(schema, lambda value: tuple(_convert_items(value, item.convert)))
        shapes = [] if members == ((),) else [self.derive(each, place) for each in members]
        size = len(shapes)

        def convert(value: Any) -> Any:
            if value.__class__ is not list or len(value) != size:
                raise Misfit(f"must be an array of {size} items")
            return tuple(
                convert_at(shape.convert, each, f"[{index}]")
                for index, (shape, each) in enumerate(zip(shapes, value, strict=True))
            )

        # The draft forbids an empty prefixItems.
        prefix = {"prefixItems": [shape.schema for shape in shapes]} if shapes else {}
        return Shape({"type": "array", **prefix, "minItems": size, "maxItems": size}, convert)

    def _derive_mapping(self, members: tuple[Any, ...], hint: Any, place: str) -> Shape:
        # JSON has only strings as keys; other keys would be strings after a conversion.
        if members[0] not in (str, Any):
            raise refuse_type(place, hint)
        item = self.derive(members[1], place)

        def convert(value: Any) -> Any:
            if value.__class__ is not dict:
                raise Misfit("must be an object")
            return {
                name: convert_at(item.convert, each, f".{name}") for name, each in value.items()
            }

        return Shape({"type": "object", "additionalProperties": item.schema}, convert)

    def _derive_class(self, kind: type, place: str) -> Shape:
        if issubclass(kind, enum.Enum):
            return _derive_choices({member: member.value for member in kind}, kind, place)
        if kind in self._shapes:
            return self._shapes[kind]
        if is_pydantic(kind):  # pydantic itself defines recursive classes
            self._shapes[kind] = self._build_pydantic(kind)
            return self._shapes[kind]
        if kind in self._active:
            self._recursive.add(kind)
            return Shape(
                {"$ref": f"#/$defs/{self._active[kind]}"},
                # Looked up at call time: the shape of a recursive class is not known yet.
                lambda value: self._shapes[kind].convert(value),
            )
        self._active[kind] = self._name(kind)
        try:
            shape = self._build_class(kind, place)
        finally:
            name = self._active.pop(kind)
        if kind in self._recursive:
            self.definitions[name] = shape.schema
            shape = attrs.evolve(shape, schema={"$ref": f"#/$defs/{name}"})
        self._shapes[kind] = shape
        return shape

    def _name(self, kind: type) -> str:
        taken = {*self.definitions, *self._active.values()}
        name, number = kind.__name__, 1
        while name in taken:
            number += 1
            name = f"{kind.__name__}{number}"
        return name

    def _build_class(self, kind: type, place: str) -> Shape:
        members = list_members(kind, place)
        if members is None:
            raise refuse_type(place, kind)
        return self._build_members(members, f"{place}, a {kind.__name__}")

    def _build_pydantic(self, kind: Any) -> Shape:
        schema = dict(kind.model_json_schema())
        schema = self._merge_definitions(schema, schema.pop("$defs", {}))

        def convert(value: Any) -> Any:
            try:
                return kind.model_validate(value, context=self.context)
            except ValueError as error:
                validation_error: Any = error  # a class of pydantic
                first, *others = map(_read_pydantic_error, validation_error.errors())
                raise Misfit(first.rule, first.path, others) from error

        return Shape(schema, convert)

    def _merge_definitions(
        self, schema: dict[str, Any], definitions: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Collect the definitions of a schema; rename a definition whose name is taken.

        Returns:
            The schema, with references to the new names.
        """
        names = {name: name for name in definitions}
        numbers = Counter(list(definitions))
        while True:
            renamed = {
                names[name]: _rename_references(definition, names)
                for name, definition in definitions.items()
            }
            clashing = [
                name
                for name, new in names.items()
                if self._is_taken(new, renamed[new]) or (new != name and new in definitions)
            ]
            if not clashing:
                self.definitions.update(renamed)
                root: dict[str, Any] = _rename_references(schema, names)
                return root
            numbers.update(clashing)
            names.update((name, f"{name}{numbers[name]}") for name in clashing)

    def _is_taken(self, name: str, definition: Any) -> bool:
        return name in self._active.values() or self.definitions.get(name, definition) != definition

    def _build_members(self, members: Members, place: str) -> Shape:
        shapes = {
            name: self.derive(member.hint, f"{place}.{name}")
            for name, member in members.fields.items()
        }
        required = [name for name, member in members.fields.items() if member.is_required]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: shape.schema for name, shape in shapes.items()},
            "additionalProperties": False,
        }
        if required:
            schema["required"] = required

        def convert(value: Any) -> Any:
            if value.__class__ is not dict:
                raise Misfit("must be an object")
            for name in required:
                if name not in value:
                    raise Misfit("is required", f".{name}")
            named = {}
            for name, each in value.items():
                if name not in shapes:
                    raise Misfit("is not known", f".{name}")
                named[name] = convert_at(shapes[name].convert, each, f".{name}")
            try:
                return members.make(**named)
            except (ValueError, TypeError) as error:
                raise Misfit(str(error)) from error

        return Shape(schema, convert)


_DEFINITIONS_PREFIX: Final = "#/$defs/"


def _rename_references(schema: Any, names: Mapping[str, str]) -> Any:
    """Return a schema with the new names of definitions in its references."""
    if isinstance(schema, list):
        return [_rename_references(each, names) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    renamed = {key: _rename_references(value, names) for key, value in schema.items()}
    match renamed.get("$ref"):
        case str(reference) if (name := reference.removeprefix(_DEFINITIONS_PREFIX)) in names:
            renamed["$ref"] = _DEFINITIONS_PREFIX + names[name]
    return renamed


def _read_pydantic_error(error: Mapping[str, Any]) -> Misfit:
    """Convert an error of pydantic."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
    return Misfit(error["msg"], "".join(parts))


def _convert_items(value: Any, convert: Convert) -> list[Any]:
    if value.__class__ is not list:
        raise Misfit("must be an array")
    return [convert_at(convert, each, f"[{index}]") for index, each in enumerate(value)]


_CHOICE_TYPES: Final = {str: "string", int: "integer", bool: "boolean", type(None): "null"}


def _derive_choices(choices: Mapping[Any, Any], hint: Any, place: str) -> Shape:
    """Derive the shape of a fixed set of values: of a Literal, or of an enumeration.

    Args:
        choices: Maps Python values to JSON values.
    """
    table: dict[tuple[type, Any], Any] = {}
    for value, choice in choices.items():
        plain = choice.value if isinstance(choice, enum.Enum) else choice
        if plain.__class__ not in _CHOICE_TYPES:
            raise refuse_type(place, hint)
        # The class is part of the key, because 1, 1.0 and True are equal keys in Python.
        table[plain.__class__, plain] = value
    if not table:
        raise refuse_type(place, hint)
    schema: dict[str, Any] = {"enum": [plain for _, plain in table]}
    kinds = {kind for kind, _ in table}
    if len(kinds) == 1:
        schema = {"type": _CHOICE_TYPES[kinds.pop()], **schema}

    def convert(value: Any) -> Any:
        # In JSON, 1.0 and 1 are one value.
        if value.__class__ is float and value.is_integer():
            value = int(value)
        try:
            return table[value.__class__, value]
        except (KeyError, TypeError):
            shown = ", ".join(map(repr, schema["enum"]))
            raise Misfit(f"must be one of {shown}") from None

    return Shape(schema, convert)
