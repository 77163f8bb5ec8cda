"""Controls: the parameters that a caller may set, their bounds, and errors of invalid values.

A control is independent of vendors: a provider's ``ControlsProcessor`` writes its value into a
request.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn, TypeAlias, assert_never

import attrs

from vibe_llms.exceptions import ControlError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.foundation.suggestions import find_near
from vibe_llms.tables.kinds import is_list, name_kind

Number: TypeAlias = "int | float"


def _freeze(values: Iterable[JsonValue]) -> tuple[JsonValue, ...]:
    return tuple(values)


@frozen
class BooleanControl:
    """True or false."""

    name: str
    default: bool | Absence = ABSENT


@frozen(kw_only=True)
class IntervalControl:
    """A number between two bounds, both allowed; ``None`` means unbounded.

    Attributes:
        grade: The step between two values, counted from the minimum, or from 0 without one. An
            integer here makes it a control of integers; ``None`` allows every number between the
            bounds.
    """

    name: str
    minimum: Number | None = None
    maximum: Number | None = None
    grade: Number | None = None
    default: Number | Absence = ABSENT

    @property
    def is_integer(self) -> bool:
        """True if only integers are valid."""
        return isinstance(self.grade, int)


@frozen(kw_only=True)
class OptionsControl:
    """One of several values: texts, numbers, or true or false."""

    name: str
    options: tuple[JsonValue, ...] = attrs.field(converter=_freeze)
    default: JsonValue | Absence = ABSENT


@frozen
class TextControl:
    """Any text."""

    name: str
    default: str | Absence = ABSENT


@frozen(kw_only=True)
class SequenceControl:
    """A list whose items conform to one control; ``maximum_items`` of ``None`` means unbounded."""

    name: str
    element: Control
    maximum_items: int | None = None
    default: JsonValue | Absence = ABSENT


@frozen(kw_only=True)
class DictionaryControl:
    """A table with free keys whose values conform to one control."""

    name: str
    element: Control
    default: JsonValue | Absence = ABSENT


Control: TypeAlias = (
    BooleanControl
    | IntervalControl
    | OptionsControl
    | TextControl
    | SequenceControl
    | DictionaryControl
)


def check_controls(
    values: Mapping[str, JsonValue], controls: Iterable[Control]
) -> dict[str, JsonValue]:
    """Validate controls and return their values; defaults are not filled in.

    Args:
        values: Values by name.
        controls: The model's controls, such as ``ModelAttributes.controls``.

    Raises:
        ControlError: A value is invalid, or a control is unknown; the remedy suggests the nearest
            name.
    """
    if not values:
        return {}
    known = {control.name: control for control in controls}
    checked: dict[str, JsonValue] = {}
    for name, value in values.items():
        if name not in known:
            raise ControlError(
                control=name,
                path=f"controls.{name}",
                detail=f"The model has no control {name!r}.",
                remedy=_suggest(name, sorted(known)),
            )
        checked[name] = check_control(known[name], value)
    return checked


def check_control(control: Control, value: JsonValue, path: str = "") -> JsonValue:
    """Validate a value and return it; for a control of integers, 40.0 becomes 40.

    Args:
        path: The place of the value in a request; by default ``controls.<name>``.

    Raises:
        ControlError: The value is invalid.
    """
    path = path or f"controls.{control.name}"
    match control:
        case BooleanControl():
            return value if isinstance(value, bool) else _refuse_kind(control, value, path)
        case TextControl():
            return value if isinstance(value, str) else _refuse_kind(control, value, path)
        case IntervalControl():
            return _check_interval(control, value, path)
        case OptionsControl():
            # In Python `True` equals 1 and 1.0.
            if any(value == option and type(value) is type(option) for option in control.options):
                return value
            return _refuse(control, path, f"must be one of the options, not {value!r}")
        case SequenceControl():
            return _check_sequence(control, value, path)
        case DictionaryControl():
            if not isinstance(value, Mapping):
                return _refuse_kind(control, value, path)
            return {
                key: check_control(control.element, element, f"{path}.{key}")
                for key, element in value.items()
            }
        case _:
            assert_never(control)


def describe_control(control: Control) -> str:
    """Describe the valid values of a control, such as ``a number from 0 to 2``."""
    match control:
        case BooleanControl():
            return "true or false"
        case TextControl():
            return "a text"
        case IntervalControl():
            return _describe_interval(control)
        case OptionsControl():
            return f"one of {', '.join(str(option) for option in control.options)}"
        case SequenceControl():
            bound = "" if control.maximum_items is None else f" of at most {control.maximum_items}"
            return f"a list{bound}, each element {describe_control(control.element)}"
        case DictionaryControl():
            return f"a table, each value {describe_control(control.element)}"
        case _:
            assert_never(control)


def _check_interval(control: IntervalControl, value: JsonValue, path: str) -> JsonValue:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _refuse_kind(control, value, path)
    try:
        is_finite = math.isfinite(value)
    except OverflowError:  # an integer beyond the range of floats
        is_finite = False
    if not is_finite:
        return _refuse(control, path, "must be a finite number")
    if control.minimum is not None and value < control.minimum:
        return _refuse(control, path, f"must be at least {control.minimum}, not {value}")
    if control.maximum is not None and value > control.maximum:
        return _refuse(control, path, f"must be at most {control.maximum}, not {value}")
    if control.is_integer and isinstance(value, float):
        if not value.is_integer():
            return _refuse(control, path, f"must be a whole number, not {value}")
        value = int(value)
    if not _is_on_grade(control, value):
        return _refuse(control, path, f"must be a multiple of its step, not {value}")
    return value


def _is_on_grade(control: IntervalControl, value: Number) -> bool:
    if control.grade is None:
        return True
    distance = value - (control.minimum or 0)
    if isinstance(distance, int) and isinstance(control.grade, int):
        return distance % control.grade == 0
    if not math.isfinite(distance):
        return False
    # 0.1 + 0.2 counts as a multiple of 0.1, although floats differ.
    tolerance = 1e-9 * max(control.grade, abs(distance))
    return abs(math.remainder(distance, control.grade)) <= tolerance


def _check_sequence(control: SequenceControl, value: JsonValue, path: str) -> JsonValue:
    if not is_list(value):
        return _refuse_kind(control, value, path)
    assert isinstance(value, Sequence)
    if control.maximum_items is not None and len(value) > control.maximum_items:
        return _refuse(
            control, path, f"may have {control.maximum_items} elements, not {len(value)}"
        )
    return [
        check_control(control.element, element, f"{path}[{index}]")
        for index, element in enumerate(value)
    ]


def _describe_interval(control: IntervalControl) -> str:
    text = "a whole number" if control.is_integer else "a number"
    if control.minimum is not None and control.maximum is not None:
        text = f"{text} from {control.minimum} to {control.maximum}"
    elif control.minimum is not None:
        text = f"{text} of at least {control.minimum}"
    elif control.maximum is not None:
        text = f"{text} of at most {control.maximum}"
    return text if control.grade in (None, 1) else f"{text} in steps of {control.grade}"


def _refuse_kind(control: Control, value: JsonValue, path: str) -> NoReturn:
    _refuse(control, path, f"must be {describe_control(control)}, not {name_kind(value)}")


def _refuse(control: Control, path: str, fault: str) -> NoReturn:
    raise ControlError(
        control=control.name,
        path=path,
        detail=f"The value at {path} {fault}.",
        remedy=f"Pass {describe_control(control)}.",
    )


def _suggest(name: str, known: Sequence[str]) -> str:
    near = find_near(name, known)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(known)}." if known else "The model has no controls."
