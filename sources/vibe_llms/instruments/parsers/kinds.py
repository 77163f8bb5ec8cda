"""What an answer shall become: its schema, and how what fits becomes a value."""

from __future__ import annotations

import enum
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.instruments.parsers.partials import list_fields, view
from vibe_llms.invocables.plain_shapes import Convert
from vibe_llms.invocables.schema_derivation import Deriver
from vibe_llms.invocables.validation import (
    ArgumentFault,
    DataWeight,
    Misfit,
    Validator,
    produce_validator,
    show_value,
)
from vibe_llms.messages.json_values import ensure_schema

WRAP: Final = "value"
"""The one member of the object that is put around what is no object itself."""

Check = Callable[[Any], object]


class Unfit(ValueError):
    """An answer that does not fit, and all that is wrong with it. Never leaves the parsers."""

    def __init__(self, *faults: ArgumentFault) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


@frozen(kw_only=True, eq=False)
class TargetType:
    """What an answer shall become.

    Attributes:
        name: For people, such as ``City`` or ``list[City]``.
        schema: What an answer is held to: always an object, as vendors need it.
        asked: What a model is asked for: the schema without leeway, as vendors enforce it. Its
            objects are closed, and all that has a default is asked for.
        is_wrapped: The object is ours, and has what is wanted as its one member.
        hint: The type; ``Any`` for a JSON Schema.
        description: What the docstring of a class begins with.
    """

    name: str
    schema: JsonObject
    asked: JsonObject
    is_wrapped: bool
    hint: Any
    description: str
    _validator: Validator
    _convert: Convert
    _is_plain: bool
    _check: Check | None

    @property
    def is_list(self) -> bool:
        """Whether what is wanted is an array."""
        inner = self.schema["properties"][WRAP] if self.is_wrapped else {}  # type: ignore[index,call-overload]
        return isinstance(inner, Mapping) and inner.get("type") == "array"

    def make(self, plain: Any) -> Any:
        """Makes the value of what a model answered.

        What is wanted is taken without the object around it, too, where it fits. Applying the
        schema may wait for another process, unless :meth:`is_at_hand` says that it does not.

        Raises:
            Unfit: It does not fit.
        """
        misfits = []
        for inner in self._unwrap(plain):
            whole = {WRAP: inner} if self.is_wrapped else inner
            try:
                # Converting proves what it converts; plain data are held to nothing but the schema.
                if self._is_plain and self._validator.check(whole):
                    raise Misfit("does not fit")
                return self._take(inner)
            except Misfit as misfit:
                misfits.append(misfit)
        # The schema is asked where nothing fits, for it names all faults and not the first alone.
        faults = self._validator.check(plain)
        raise self._fail(misfits[0], plain, faults) from misfits[0]

    def make_fitting(self, plain: Any) -> Any:
        """Makes the value of an answer that is known to fit the schema. Raises Unfit."""
        try:
            return self._take(self._unwrap(plain)[0])
        except Misfit as misfit:
            raise self._fail(misfit, plain) from misfit

    def is_at_hand(self, weight: DataWeight) -> bool:
        """Tells whether a value is certainly made of data so large without another process."""
        return self._validator.is_at_hand(weight)

    def fits(self, plain: Any) -> bool:
        """Tells whether a value can be made of what a model answered."""
        try:
            self.make(plain)
        except Unfit:
            return False
        return True

    def glimpse(self, plain: Any) -> Any:
        """Returns what a part of an answer shows of the value; ``ABSENT`` while that is nothing."""
        if self.is_wrapped and isinstance(plain, dict):
            plain = plain.get(WRAP, ABSENT)
        return view(self.hint, plain)

    def _take(self, inner: Any) -> Any:
        """Converts what fits the schema. Raises Misfit."""
        value = self._convert(inner)
        if self._check is not None:
            try:
                self._check(value)
            except (ValueError, AssertionError) as error:
                raise Misfit(str(error) or "failed a check") from error
        return value

    def _fail(self, misfit: Misfit, plain: Any, faults: tuple[ArgumentFault, ...] = ()) -> Unfit:
        if not faults:  # the schema has no words for it
            place = f".{WRAP}" if self.is_wrapped else ""
            faults = tuple(_quote(fault, plain) for fault in misfit.move(place).faults)
        return Unfit(*map(_rename, faults))

    def _unwrap(self, plain: Any) -> list[Any]:
        """Returns what may be meant, the likeliest first."""
        if self.is_wrapped and isinstance(plain, dict) and plain.keys() == {WRAP}:
            # Without our object around it, an answer may be one that has just this member itself.
            return [plain[WRAP], plain]
        return [plain]


def derive_kind(
    kind: Any, name: str, *, context: Any = None, check: Check | None = None
) -> TargetType:
    """Derives all about a kind from a type, or from a JSON Schema.

    Args:
        name: Of the parser, for errors.
        context: For the validators of pydantic's classes.
        check: Called with each value; it raises ValueError for one that is not to be taken.

    Raises:
        RequestError: The type has no counterpart in JSON; or the schema is none.
    """
    if isinstance(kind, Mapping):
        hint: Any = Any
        convert: Convert = _keep
        given: Any = ensure_schema(kind)
        schema: dict[str, Any] = {**given}
    else:
        deriver = Deriver(context=context)
        shape = deriver.derive(kind, name)
        hint, convert = kind, shape.convert
        schema = _find_root(shape.schema, deriver.definitions)
    is_wrapped = schema.get("type") != "object"
    whole = _wrap(schema) if is_wrapped else schema
    return TargetType(
        name=name_kind(kind),
        schema=whole,
        asked=whole if convert is _keep else _demand(whole),
        is_wrapped=is_wrapped,
        hint=hint,
        description=_describe(kind),
        validator=produce_validator(whole),
        convert=convert,
        is_plain=convert is _keep,
        check=check,
    )


def _keep(plain: Any) -> Any:
    return plain


def _find_root(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema with the definitions within, and an object where a reference was."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    root = {**definitions[name], **schema} if name in definitions else dict(schema)
    if name in definitions:
        del root["$ref"]
    return {**root, "$defs": definitions} if definitions else root


def _wrap(schema: dict[str, Any]) -> dict[str, Any]:
    """Puts an object around a schema; what refers to its root is led there."""
    inner = dict(schema)
    outer = {name: inner.pop(name) for name in _OUTER if name in inner}
    whole: dict[str, Any] = {
        "type": "object",
        "properties": {WRAP: inner},
        "required": [WRAP],
        "additionalProperties": False,
        **outer,
    }
    return _lead(whole) if inner.keys() - {"type", "enum"} else whole


def _demand(schema: Any) -> Any:
    """Return a schema of a class without leeway: what fits it fits the class, too."""
    if isinstance(schema, list):
        return [_demand(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    demanded = {
        name: {key: _demand(inner) for key, inner in value.items()}
        if name in _BY_NAME
        else value
        if name in _DATA
        else _demand(value)
        for name, value in schema.items()
        if name != "default"
    }
    if isinstance(properties := schema.get("properties"), Mapping):
        demanded.setdefault("additionalProperties", False)
        demanded["required"] = list(properties)
    if "$ref" in demanded and len(demanded.keys() - {"$defs"}) > 1:
        # Nothing may stand beside a reference.
        demanded["anyOf"] = [{"$ref": demanded.pop("$ref")}]
    return demanded


_BY_NAME: Final = ("properties", "$defs")
_DATA: Final = ("enum", "const", "examples")

_OUTER: Final[tuple[str, ...]] = ("$schema", "$defs", "definitions")
"""What stands at the root of a schema, wherever the rest of it goes."""


def _lead(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {
            name: f"#/properties/{WRAP}{value[1:]}"
            if name == "$ref" and isinstance(value, str) and _REACHES_ROOT.match(value)
            else _lead(value)
            for name, value in schema.items()
        }
    return [_lead(each) for each in schema] if isinstance(schema, list) else schema


_REACHES_ROOT: Final = re.compile(r"#(?:$|/(?!\$defs/|definitions/))")


def name_kind(kind: Any) -> str:
    """Returns what people call a kind."""
    if isinstance(kind, Mapping):
        return str(kind.get("title") or "JSON Schema")
    is_class = isinstance(kind, type) and typing.get_origin(kind) is None
    return kind.__name__ if is_class else re.sub(r"\b(?:\w+\.)+(?=\w)", "", repr(kind))


def _describe(kind: Any) -> str:
    """Returns the first paragraph of a class's own docstring."""
    if isinstance(kind, Mapping):
        return str(kind.get("description") or "")
    is_class = isinstance(kind, type) and typing.get_origin(kind) is None
    if not is_class or not (issubclass(kind, enum.Enum) or list_fields(kind)):
        return ""
    words = inspect.cleandoc(vars(kind).get("__doc__") or "").split("\n\n")[0]
    is_made = words.startswith((f"{kind.__name__}(", "An enumeration"))  # by whoever made the class
    return "" if is_made else " ".join(words.split())


def _rename(fault: ArgumentFault) -> ArgumentFault:
    return attrs.evolve(fault, path=f"answer{fault.path.removeprefix('arguments')}")


_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _quote(fault: ArgumentFault, plain: Any) -> ArgumentFault:
    """Adds what was given to a fault, where it can be found."""
    for step in _STEP.finditer(fault.path.removeprefix("arguments")):
        key: Any = step[1] if step[2] is None else int(step[2])
        try:
            plain = plain[key]
        except (KeyError, IndexError, TypeError):
            return fault
    return attrs.evolve(fault, rule=f"{fault.rule}; got {show_value(plain)}")
