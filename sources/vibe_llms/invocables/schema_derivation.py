"""JSON Schema of a Python type, and the conversion of valid values to its objects.

The two agree: values that fit the schema are converted, and converted values fit the schema; only
for rules that JSON Schema cannot express (a date that does not exist, a class that rejects its own
values) is the conversion stricter.
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
from vibe_llms.invocables.plain_shapes import Convert, Shape, find_plain, within


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
        hint = getattr(hint, "__value__", hint)  # type X = …
        hint = getattr(hint, "__supertype__", hint)  # NewType
        if (plain := find_plain(hint)) is not None:
            return plain
        origin, members = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return self._derive_annotated(members, place)
        if origin is typing.Literal:
            return _derive_words({word: word for word in members}, hint, place)
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
        words = next((item for item in members[1:] if isinstance(item, str)), "")
        return (
            attrs.evolve(shape, schema={**shape.schema, "description": words}) if words else shape
        )

    def _derive_union(self, members: tuple[Any, ...], place: str) -> Shape:
        shapes = [self.derive(member, place) for member in members]
        converts = tuple(shape.convert for shape in shapes)

        def convert(value: Any) -> Any:
            nearest = None
            for each in converts:
                try:
                    return each(value)
                except Misfit as misfit:
                    # The alternative that matched deepest is probably meant, and its faults help
                    # most.
                    if nearest is None or misfit.path.count(".") > nearest.path.count("."):
                        nearest = misfit
            assert nearest is not None
            raise nearest

        return Shape({"anyOf": [shape.schema for shape in shapes]}, convert)

    def _derive_array(self, kind: Any, members: tuple[Any, ...], place: str) -> Shape:
        item, make = self.derive(members[0], place), ARRAYS[kind]
        schema: dict[str, Any] = {"type": "array", "items": item.schema}
        if make is list:
            return Shape(schema, lambda value: _convert_items(value, item.convert))

        def convert(value: Any) -> Any:
            items = _convert_items(value, item.convert)
            try:
                made = make(items)
            except TypeError as error:
                raise Misfit("must contain only plain values") from error
            # Different texts may have the same meaning, as a UUID in capitals; the schema accepts
            # them.
            if len(made) != len(items):
                raise Misfit("must not have the same item twice")
            return made

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
                within(shape.convert, each, f"[{index}]")
                for index, (shape, each) in enumerate(zip(shapes, value, strict=True))
            )

        # The draft forbids an empty prefixItems.
        prefix = {"prefixItems": [shape.schema for shape in shapes]} if shapes else {}
        return Shape({"type": "array", **prefix, "minItems": size, "maxItems": size}, convert)

    def _derive_mapping(self, members: tuple[Any, ...], hint: Any, place: str) -> Shape:
        # Names in JSON are strings; a number as a key would be read back as one.
        if members[0] not in (str, Any):
            raise refuse_type(place, hint)
        item = self.derive(members[1], place)

        def convert(value: Any) -> Any:
            if value.__class__ is not dict:
                raise Misfit("must be an object")
            return {name: within(item.convert, each, f".{name}") for name, each in value.items()}

        return Shape({"type": "object", "additionalProperties": item.schema}, convert)

    def _derive_class(self, kind: type, place: str) -> Shape:
        if issubclass(kind, enum.Enum):
            return _derive_words({member: member.value for member in kind}, kind, place)
        if kind in self._shapes:
            return self._shapes[kind]
        if is_pydantic(kind):  # which has already defined recursive classes
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
        schema = self._adopt(schema, schema.pop("$defs", {}))

        def convert(value: Any) -> Any:
            try:
                return kind.model_validate(value, context=self.context)
            except ValueError as error:
                found: Any = error  # pydantic's own error
                first, *others = (_read_foreign(each) for each in found.errors())
                raise Misfit(first.rule, first.path, others) from error

        return Shape(schema, convert)

    def _adopt(self, schema: dict[str, Any], foreign: Mapping[str, Any]) -> dict[str, Any]:
        """Add the definitions of a schema to the collected ones; return the schema that refers to
        them.

        A definition with a name that is taken is renamed.
        """
        names = {name: name for name in foreign}
        numbers = Counter(list(foreign))
        while True:
            led = {names[name]: _lead(definition, names) for name, definition in foreign.items()}
            clashing = [
                name
                for name, new in names.items()
                if self._is_taken(new, led[new]) or (new != name and new in foreign)
            ]
            if not clashing:
                self.definitions.update(led)
                root: dict[str, Any] = _lead(schema, names)
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
                named[name] = within(shapes[name].convert, each, f".{name}")
            try:
                return members.make(**named)
            except (ValueError, TypeError) as error:
                raise Misfit(str(error)) from error

        return Shape(schema, convert)


_DEFINED: Final = "#/$defs/"


def _lead(schema: Any, names: Mapping[str, str]) -> Any:
    """Return a schema whose references to definitions lead to their new names."""
    if isinstance(schema, list):
        return [_lead(each, names) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    led = {key: _lead(value, names) for key, value in schema.items()}
    match led.get("$ref"):
        case str(reference) if (name := reference.removeprefix(_DEFINED)) in names:
            led["$ref"] = _DEFINED + names[name]
    return led


def _read_foreign(found: Mapping[str, Any]) -> Misfit:
    """Convert an error of pydantic."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in found["loc"])
    return Misfit(found["msg"], "".join(parts))


def _convert_items(value: Any, convert: Convert) -> list[Any]:
    if value.__class__ is not list:
        raise Misfit("must be an array")
    return [within(convert, each, f"[{index}]") for index, each in enumerate(value)]


_WORD_TYPES: Final = {str: "string", int: "integer", bool: "boolean", type(None): "null"}


def _derive_words(words: Mapping[Any, Any], hint: Any, place: str) -> Shape:
    """Derive the shape of a fixed set of values: of a Literal, or of an enumeration.

    Args:
        words: Maps Python values to JSON values.
    """
    table: dict[tuple[type, Any], Any] = {}
    for meant, word in words.items():
        plain = word.value if isinstance(word, enum.Enum) else word
        if plain.__class__ not in _WORD_TYPES:
            raise refuse_type(place, hint)
        # With its class, since 1, 1.0 and True are one key in Python.
        table[plain.__class__, plain] = meant
    if not table:
        raise refuse_type(place, hint)
    schema: dict[str, Any] = {"enum": [plain for _, plain in table]}
    kinds = {kind for kind, _ in table}
    if len(kinds) == 1:
        schema = {"type": _WORD_TYPES[kinds.pop()], **schema}

    def convert(value: Any) -> Any:
        # In JSON, 1.0 and 1 are the same value.
        if value.__class__ is float and value.is_integer():
            value = int(value)
        try:
            return table[value.__class__, value]
        except (KeyError, TypeError):
            shown = ", ".join(map(repr, schema["enum"]))
            raise Misfit(f"must be one of {shown}") from None

    return Shape(schema, convert)
