"""Makes a control from its definition in an attribute file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import attrs

from vibe_llms.exceptions import ControlError
from vibe_llms.models.controls import (
    BooleanControl,
    Control,
    DictionaryControl,
    IntervalControl,
    Number,
    OptionsControl,
    SequenceControl,
    TextControl,
    check_control,
)
from vibe_llms.nearness import suggest_among
from vibe_llms.plain import JsonValue
from vibe_llms.tables.kinds import is_list, name_kind


class DefinitionError(ValueError):
    """A definition that makes no control; the text says why. Never leaves this package.

    Attributes:
        field: Which field of the definition is to blame.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def produce_control(name: str, fields: Mapping[str, JsonValue]) -> Control:
    """Makes the control that the fields define.

    Raises:
        DefinitionError: They define none.
    """
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        known = f"known: {', '.join(_KINDS)}"
        if "kind" not in fields:
            raise DefinitionError("kind", f"lacks its 'kind' ({known})")
        raise DefinitionError("kind", f"has the unknown kind {kind!r}{suggest_among(kind, _KINDS)}")
    produce, allowed = _KINDS[kind]
    for field in fields:
        if field not in ("kind", "default", *allowed):
            near = suggest_among(field, ("kind", "default", *allowed))
            raise DefinitionError(field, f"is of kind {kind!r}, which has no {field!r}{near}")
    control = produce(name, fields)
    if "default" not in fields:
        return control
    try:
        default = check_control(control, fields["default"], "default")
    except ControlError as error:
        raise DefinitionError("default", f"has a wrong default: {error.detail}") from error
    # The check has just proved the kind, which no type can say of a union.
    return attrs.evolve(control, default=cast(Any, default))


def _produce_boolean(name: str, _fields: Mapping[str, JsonValue]) -> Control:
    return BooleanControl(name)


def _produce_text(name: str, _fields: Mapping[str, JsonValue]) -> Control:
    return TextControl(name)


def _produce_interval(name: str, fields: Mapping[str, JsonValue]) -> Control:
    minimum = _access_number(fields, "minimum")
    maximum = _access_number(fields, "maximum")
    grade = _access_number(fields, "grade")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise DefinitionError("minimum", f"has the minimum {minimum} above the maximum {maximum}")
    if grade is not None and grade <= 0:
        raise DefinitionError("grade", f"needs a grade above 0, not {grade}")
    if isinstance(grade, int) and isinstance(minimum, float) and not minimum.is_integer():
        raise DefinitionError("minimum", f"takes whole numbers, but has the minimum {minimum}")
    return IntervalControl(name=name, minimum=minimum, maximum=maximum, grade=grade)


def _produce_options(name: str, fields: Mapping[str, JsonValue]) -> Control:
    options = fields.get("options")
    if not is_list(options) or not options:
        raise DefinitionError("options", "needs 'options', a list with at least one value")
    assert isinstance(options, Sequence)
    for option in options:
        if not isinstance(option, str | int | float):
            raise DefinitionError("options", f"cannot have {name_kind(option)} as an option")
    return OptionsControl(name=name, options=options)


def _produce_sequence(name: str, fields: Mapping[str, JsonValue]) -> Control:
    maximum = _access_number(fields, "maximum_items")
    if maximum is not None and (not isinstance(maximum, int) or maximum < 1):
        raise DefinitionError("maximum_items", f"needs a count as maximum_items, not {maximum}")
    return SequenceControl(name=name, element=_produce_element(name, fields), maximum_items=maximum)


def _produce_dictionary(name: str, fields: Mapping[str, JsonValue]) -> Control:
    return DictionaryControl(name=name, element=_produce_element(name, fields))


def _produce_element(name: str, fields: Mapping[str, JsonValue]) -> Control:
    element = fields.get("element")
    if not isinstance(element, Mapping):
        raise DefinitionError("element", "needs 'element', the definition of its elements")
    if "default" in element:
        raise DefinitionError("element", "cannot give its elements a default")
    try:
        return produce_control(name, element)
    except DefinitionError as error:
        raise DefinitionError("element", f"has an element that {error}") from error


def _access_number(fields: Mapping[str, JsonValue], field: str) -> Number | None:
    value = fields.get(field)
    if value is None:
        return None
    # A bound that is infinite or not a number compares as no bound does; leave it out instead.
    if isinstance(value, bool) or not isinstance(value, int | float) or value - value != 0:
        raise DefinitionError(field, f"needs a finite number as {field}, not {value!r}")
    return value


_KINDS: Mapping[str, tuple[Callable[[str, Mapping[str, JsonValue]], Control], tuple[str, ...]]] = {
    "boolean": (_produce_boolean, ()),
    "interval": (_produce_interval, ("minimum", "maximum", "grade")),
    "options": (_produce_options, ("options",)),
    "text": (_produce_text, ()),
    "sequence": (_produce_sequence, ("element", "maximum_items")),
    "dictionary": (_produce_dictionary, ("element",)),
}
