"""Target types of parsers: their schemas, and the conversion of valid answers to values."""

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
from vibe_llms.invocables.validation import DataSize, Validator, produce_validator
from vibe_llms.messages.json_values import ensure_schema

WRAP: Final = "value"
"""Name of the only member of the object that wraps a value which is not an object."""

Check = Callable[[Any], object]


class InvalidAnswer(ValueError):
    """An answer is invalid; has all faults. Callers of a parser get a ParseError instead."""

    def __init__(self, *faults: ArgumentFault) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


@frozen(kw_only=True, eq=False)
class TargetType:
    """Target type of a parser.

    Attributes:
        name: The name for people, such as ``City`` or ``list[City]``.
        schema: The schema to which answers must conform: always of an object, as vendors require.
        sent_schema: The stricter schema that is sent to the model, because vendors can enforce only
            such ones: no additional members, and members with a default are required.
        is_wrapped: The object is a wrapper whose only member is the value.
        hint: The type; ``Any`` for a JSON Schema.
        description: The first paragraph of a class's docstring.
    """

    name: str
    schema: JsonObject
    sent_schema: JsonObject
    is_wrapped: bool
    hint: Any
    description: str
    _validator: Validator
    _convert: Convert
    _is_plain: bool
    _check: Check | None

    @property
    def is_list(self) -> bool:
        """True if the value is an array."""
        inner = self.schema["properties"][WRAP] if self.is_wrapped else {}  # type: ignore[index,call-overload]
        return isinstance(inner, Mapping) and inner.get("type") == "array"

    def make(self, data: Any) -> Any:
        """Create the value of a model's answer.

        A valid value without its wrapper is accepted, too. Applying the schema may wait for another
        process, unless :meth:`converts_in_process` excludes it.

        Raises:
            InvalidAnswer: The answer is invalid.
        """
        misfits = []
        for inner in self._unwrap(data):
            whole = {WRAP: inner} if self.is_wrapped else inner
            try:
                # The conversion to a type validates the data; plain data is not converted, so only
                # the schema validates it.
                if self._is_plain and self._validator.check(whole):
                    raise Misfit("does not fit")
                return self._convert_and_check(inner)
            except Misfit as misfit:
                misfits.append(misfit)
        # The conversion has stopped at its first fault; the schema reports all faults.
        faults = self._validator.check(data)
        raise self._fail(misfits[0], data, faults) from misfits[0]

    def make_valid(self, data: Any) -> Any:
        """Create the value of an answer that conforms to the schema. Raises InvalidAnswer."""
        try:
            return self._convert_and_check(self._unwrap(data)[0])
        except Misfit as misfit:
            raise self._fail(misfit, data) from misfit

    def converts_in_process(self, weight: DataSize) -> bool:
        """Return whether data of this size is certainly converted without another process."""
        return self._validator.is_cheap(weight)

    def is_valid(self, data: Any) -> bool:
        """Return whether an answer can be converted to a value."""
        try:
            self.make(data)
        except InvalidAnswer:
            return False
        return True

    def view_partial(self, data: Any) -> Any:
        """Return the partial value of a partial answer; ``ABSENT`` while there is none."""
        if self.is_wrapped and isinstance(data, dict):
            data = data.get(WRAP, ABSENT)
        return view(self.hint, data)

    def _convert_and_check(self, inner: Any) -> Any:
        """Convert data that conforms to the schema. Raises Misfit."""
        value = self._convert(inner)
        if self._check is not None:
            try:
                self._check(value)
            except (ValueError, AssertionError) as error:
                raise Misfit(str(error) or "failed a check") from error
        return value

    def _fail(
        self, misfit: Misfit, data: Any, faults: tuple[ArgumentFault, ...] = ()
    ) -> InvalidAnswer:
        if not faults:  # the schema cannot express the fault
            prefix = f".{WRAP}" if self.is_wrapped else ""
            faults = tuple(_add_value(fault, data) for fault in misfit.move(prefix).faults)
        return InvalidAnswer(*map(_rename_root, faults))

    def _unwrap(self, data: Any) -> list[Any]:
        """Return the data that may be the value, the likeliest first."""
        if self.is_wrapped and isinstance(data, dict) and data.keys() == {WRAP}:
            # It may also be a value without the wrapper, with a member of that name.
            return [data[WRAP], data]
        return [data]


def derive_kind(
    kind: Any, name: str, *, context: Any = None, check: Check | None = None
) -> TargetType:
    """Derive the target type of a type or a JSON Schema.

    Args:
        name: The name of the parser, for errors.
        context: The context for pydantic's validators.
        check: Called with each value; raises ValueError to reject it.

    Raises:
        RequestError: The type has no counterpart in JSON; or the schema is invalid.
    """
    if isinstance(kind, Mapping):
        hint: Any = Any
        convert: Convert = _return_unchanged
        valid_schema: Any = ensure_schema(kind)
        schema: dict[str, Any] = {**valid_schema}
    else:
        deriver = Deriver(context=context)
        shape = deriver.derive(kind, name)
        hint, convert = kind, shape.convert
        schema = _inline_root(shape.schema, deriver.definitions)
    is_wrapped = schema.get("type") != "object"
    whole = _wrap(schema) if is_wrapped else schema
    return TargetType(
        name=name_kind(kind),
        schema=whole,
        sent_schema=whole if convert is _return_unchanged else _make_strict(whole),
        is_wrapped=is_wrapped,
        hint=hint,
        description=_describe(kind),
        validator=produce_validator(whole),
        convert=convert,
        is_plain=convert is _return_unchanged,
        check=check,
    )


def _return_unchanged(data: Any) -> Any:
    """Convert the data of a JSON Schema, whose values are plain data."""
    return data


def _inline_root(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its definitions; a reference at the root is replaced by its target."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    root = {**definitions[name], **schema} if name in definitions else dict(schema)
    if name in definitions:
        del root["$ref"]
    return {**root, "$defs": definitions} if definitions else root


def _wrap(schema: dict[str, Any]) -> dict[str, Any]:
    """Wrap a schema in an object; references to its root are redirected."""
    inner = dict(schema)
    outer = {name: inner.pop(name) for name in _ROOT_KEYWORDS if name in inner}
    whole: dict[str, Any] = {
        "type": "object",
        "properties": {WRAP: inner},
        "required": [WRAP],
        "additionalProperties": False,
        **outer,
    }
    may_have_references = bool(inner.keys() - {"type", "enum"})
    return _redirect_references(whole) if may_have_references else whole


def _make_strict(schema: Any) -> Any:
    """Return a stricter schema: all members are required, and no others are allowed.

    Any value that conforms to it also conforms to the original.
    """
    if isinstance(schema, list):
        return [_make_strict(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    strict: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _MAPS_OF_SCHEMAS:
            strict[name] = {key: _make_strict(inner) for key, inner in value.items()}
        elif name in _PLAIN_DATA:
            strict[name] = value
        elif name != "default":
            strict[name] = _make_strict(value)
    if isinstance(properties := schema.get("properties"), Mapping):
        strict.setdefault("additionalProperties", False)
        strict["required"] = list(properties)
    if "$ref" in strict and len(strict.keys() - {"$defs"}) > 1:
        # Strict schemas do not allow other keywords next to a reference.
        strict["anyOf"] = [{"$ref": strict.pop("$ref")}]
    return strict


_MAPS_OF_SCHEMAS: Final = ("properties", "$defs")
"""Keywords whose values are schemas by name."""
_PLAIN_DATA: Final = ("enum", "const", "examples")
"""Keywords whose values are not schemas."""

_ROOT_KEYWORDS: Final[tuple[str, ...]] = ("$schema", "$defs", "definitions")
"""Keywords that stay at the root of a schema when the rest is wrapped."""


def _redirect_references(schema: Any) -> Any:
    """Redirect references to the former root, which is now a property of the wrapper."""
    if isinstance(schema, list):
        return [_redirect_references(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    redirected = {}
    for name, value in schema.items():
        if name == "$ref" and isinstance(value, str) and _WRAPPED_REFERENCE.match(value):
            redirected[name] = f"#/properties/{WRAP}{value[1:]}"
        else:
            redirected[name] = _redirect_references(value)
    return redirected


_WRAPPED_REFERENCE: Final = re.compile(r"#(?:$|/(?!\$defs/|definitions/))")
"""References to the root or a part of it, except definitions, which stay at the root."""


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
    paragraph = inspect.cleandoc(vars(kind).get("__doc__") or "").split("\n\n")[0]
    # Python generates docstrings for dataclasses and enumerations without one.
    is_generated = paragraph.startswith((f"{kind.__name__}(", "An enumeration"))
    return "" if is_generated else " ".join(paragraph.split())


def _rename_root(fault: ArgumentFault) -> ArgumentFault:
    return attrs.evolve(fault, path=f"answer{fault.path.removeprefix('arguments')}")


_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _add_value(fault: ArgumentFault, data: Any) -> ArgumentFault:
    """Quote the value at the path of a fault in the fault, if the path exists."""
    for step in _STEP.finditer(fault.path.removeprefix("arguments")):
        key: Any = step[1] if step[2] is None else int(step[2])
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return fault
    return attrs.evolve(fault, rule=f"{fault.rule}; got {show_value(data)}")
