"""Target of parsing: its schema, and the conversion of valid answers into values."""

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
from vibe_llms.invocables.argument_faults import ArgumentFault, Misfit, show_value
from vibe_llms.invocables.plain_shapes import Convert
from vibe_llms.invocables.schema_derivation import Deriver
from vibe_llms.invocables.validation import DataWeight, Validator, produce_validator
from vibe_llms.messages.json_values import ensure_schema

WRAP: Final = "value"
"""Name of the only member of the object that wraps a value which is not an object."""

Check = Callable[[Any], object]


class Unfit(ValueError):
    """An invalid answer with all its faults. Never leaves the parsers."""

    def __init__(self, *faults: ArgumentFault) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


@frozen(kw_only=True, eq=False)
class TargetType:
    """Target type of a parser.

    Attributes:
        name: For people, such as ``City`` or ``list[City]``.
        schema: The schema that answers must fit: always of an object, as vendors require.
        asked: The schema sent to the model: without leeway, as vendors enforce it. Its objects are
            closed, and members with a default are required.
        is_wrapped: The object is a wrapper; its only member is the wanted value.
        hint: The type; ``Any`` for a JSON Schema.
        description: The first paragraph of a class's docstring.
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
        """True if the wanted value is an array."""
        inner = self.schema["properties"][WRAP] if self.is_wrapped else {}  # type: ignore[index,call-overload]
        return isinstance(inner, Mapping) and inner.get("type") == "array"

    def make(self, plain: Any) -> Any:
        """Create the value of a model's answer.

        A value without its wrapper is accepted, too, if it is valid. Applying the schema may wait
        for another process, unless :meth:`is_at_hand` excludes it.

        Raises:
            Unfit: The answer is invalid.
        """
        misfits = []
        for inner in self._unwrap(plain):
            whole = {WRAP: inner} if self.is_wrapped else inner
            try:
                # Conversion validates what it converts; plain data are validated by the schema
                # alone.
                if self._is_plain and self._validator.check(whole):
                    raise Misfit("does not fit")
                return self._take(inner)
            except Misfit as misfit:
                misfits.append(misfit)
        # If nothing is valid, apply the schema, because it reports all faults and not only the
        # first.
        faults = self._validator.check(plain)
        raise self._fail(misfits[0], plain, faults) from misfits[0]

    def make_fitting(self, plain: Any) -> Any:
        """Create the value of an answer that is known to fit the schema. Raises Unfit."""
        try:
            return self._take(self._unwrap(plain)[0])
        except Misfit as misfit:
            raise self._fail(misfit, plain) from misfit

    def is_at_hand(self, weight: DataWeight) -> bool:
        """Return whether data of this size are certainly converted without another process."""
        return self._validator.is_at_hand(weight)

    def fits(self, plain: Any) -> bool:
        """Return whether an answer can be converted to a value."""
        try:
            self.make(plain)
        except Unfit:
            return False
        return True

    def glimpse(self, plain: Any) -> Any:
        """Return the partial value of a partial answer; ``ABSENT`` while there is none."""
        if self.is_wrapped and isinstance(plain, dict):
            plain = plain.get(WRAP, ABSENT)
        return view(self.hint, plain)

    def _take(self, inner: Any) -> Any:
        """Convert data that fit the schema. Raises Misfit."""
        value = self._convert(inner)
        if self._check is not None:
            try:
                self._check(value)
            except (ValueError, AssertionError) as error:
                raise Misfit(str(error) or "failed a check") from error
        return value

    def _fail(self, misfit: Misfit, plain: Any, faults: tuple[ArgumentFault, ...] = ()) -> Unfit:
        if not faults:  # the schema cannot express the fault
            place = f".{WRAP}" if self.is_wrapped else ""
            faults = tuple(_quote(fault, plain) for fault in misfit.move(place).faults)
        return Unfit(*map(_rename, faults))

    def _unwrap(self, plain: Any) -> list[Any]:
        """Return the possible values, the likeliest first."""
        if self.is_wrapped and isinstance(plain, dict) and plain.keys() == {WRAP}:
            # An answer without the wrapper may itself have a member of that name.
            return [plain[WRAP], plain]
        return [plain]


def derive_kind(
    kind: Any, name: str, *, context: Any = None, check: Check | None = None
) -> TargetType:
    """Derive the target type of a type or a JSON Schema.

    Args:
        name: Of the parser, for errors.
        context: For the validators of pydantic's classes.
        check: Called with each value; raises ValueError to reject it.

    Raises:
        RequestError: The type has no counterpart in JSON; or the schema is invalid.
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
    """Return a schema with its definitions, and an object in place of a reference at its root."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    root = {**definitions[name], **schema} if name in definitions else dict(schema)
    if name in definitions:
        del root["$ref"]
    return {**root, "$defs": definitions} if definitions else root


def _wrap(schema: dict[str, Any]) -> dict[str, Any]:
    """Wrap a schema in an object; references to its root are adapted."""
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
        # A reference allows no other keywords next to it.
        demanded["anyOf"] = [{"$ref": demanded.pop("$ref")}]
    return demanded


_BY_NAME: Final = ("properties", "$defs")
_DATA: Final = ("enum", "const", "examples")

_OUTER: Final[tuple[str, ...]] = ("$schema", "$defs", "definitions")
"""Keywords that stay at the root of a schema when the rest moves."""


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
    """Return the name of a type for people."""
    if isinstance(kind, Mapping):
        return str(kind.get("title") or "JSON Schema")
    is_class = isinstance(kind, type) and typing.get_origin(kind) is None
    return kind.__name__ if is_class else re.sub(r"\b(?:\w+\.)+(?=\w)", "", repr(kind))


def _describe(kind: Any) -> str:
    """Return the first paragraph of a class's own docstring."""
    if isinstance(kind, Mapping):
        return str(kind.get("description") or "")
    is_class = isinstance(kind, type) and typing.get_origin(kind) is None
    if not is_class or not (issubclass(kind, enum.Enum) or list_fields(kind)):
        return ""
    words = inspect.cleandoc(vars(kind).get("__doc__") or "").split("\n\n")[0]
    # Written by the author of the class.
    is_made = words.startswith((f"{kind.__name__}(", "An enumeration"))
    return "" if is_made else " ".join(words.split())


def _rename(fault: ArgumentFault) -> ArgumentFault:
    return attrs.evolve(fault, path=f"answer{fault.path.removeprefix('arguments')}")


_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _quote(fault: ArgumentFault, plain: Any) -> ArgumentFault:
    """Add the value to a fault, if it can be found."""
    for step in _STEP.finditer(fault.path.removeprefix("arguments")):
        key: Any = step[1] if step[2] is None else int(step[2])
        try:
            plain = plain[key]
        except (KeyError, IndexError, TypeError):
            return fault
    return attrs.evolve(fault, rule=f"{fault.rule}; got {show_value(plain)}")
