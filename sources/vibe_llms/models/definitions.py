"""Make a control from its definition in an attribute file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from vibe_llms.exceptions import ControlError
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.models.controls import (
    BooleanControl,
    Control,
    DictionaryControl,
    IntervalControl,
    OptionsControl,
    SequenceControl,
    TextControl,
    check_control,
)
from vibe_llms.tables.kinds import COUNT, TABLE, Choice, Kind, is_list, is_number
from vibe_llms.tables.paths import KeyPath
from vibe_llms.tables.reading import TableReader, locate_by_name


def _is_finite(value: Any) -> bool:
    # The difference is NaN for infinity and NaN; math.isfinite fails for huge integers.
    return is_number(value) and value - value == 0


def _is_choice(value: Any) -> bool:
    return is_list(value) and bool(value) and all(isinstance(v, (str, int, float)) for v in value)


_FINITE: Final = Kind("a finite number", _is_finite)
_FIELDS: Final[Mapping[str, tuple[Any, Mapping[str, Kind]]]] = {
    "boolean": (BooleanControl, {}),
    "interval": (
        IntervalControl,
        {
            "minimum": _FINITE,
            "maximum": _FINITE,
            "grade": Kind("a finite number above 0", lambda value: _is_finite(value) and value > 0),
        },
    ),
    "options": (
        OptionsControl,
        {"options": Kind("a list of at least one text, number, true or false", _is_choice)},
    ),
    "text": (TextControl, {}),
    "sequence": (SequenceControl, {"element": TABLE, "maximum_items": COUNT}),
    "dictionary": (DictionaryControl, {"element": TABLE}),
}
_REQUIRED: Final = frozenset({"element", "options"})
_COMMON: Final = {"kind": Choice(_FIELDS), "default": Kind("a value", lambda _: True)}


def produce_control(name: str, fields: Mapping[str, JsonValue]) -> Control:
    """Make the control that the fields define.

    Raises:
        ConfigurationError: The definition is invalid; lists all errors.
    """
    reader = TableReader(locate_by_name(name))
    control = read_control(name, fields, reader)
    reader.finish()
    assert control is not None
    return control


def read_control(
    name: str, fields: Mapping[str, JsonValue], reader: TableReader, path: KeyPath = ()
) -> Control | None:
    """Make the control that the fields define.

    Args:
        reader: Collects the errors; with errors, ``None`` is returned.
        path: Path of the definition.
    """
    findings_before = len(reader.findings)
    kind = fields.get("kind")
    cls, known = _FIELDS.get(kind if isinstance(kind, str) else "", (None, {}))
    if cls is None:  # the other fields depend on the kind
        fields = {"kind": kind} if "kind" in fields else {}
    values = reader.read_fields(
        {**_COMMON, **known}, fields, path, ("kind", *(_REQUIRED & known.keys()))
    )
    if "element" in values:
        values["element"] = _produce_element(name, values["element"], reader, (*path, "element"))
    _check_bounds(values, reader, path)
    if len(reader.findings) > findings_before:
        return None
    del values["kind"]
    control: Control = cls(name=name, **{key: values[key] for key in values if key != "default"})
    if "default" not in values:
        return control
    try:
        default: Any = check_control(control, values["default"], "It")
        return attrs.evolve(control, default=default)
    except ControlError as error:
        reader.report((*path, "default"), error.detail.removeprefix("The value at "))
        return None


def _produce_element(
    name: str, fields: Mapping[str, JsonValue], reader: TableReader, path: KeyPath
) -> Control | None:
    if "default" in fields:
        reader.report((*path, "default"), "Items have no default.")
    return read_control(name, fields, reader, path)


def _check_bounds(values: Mapping[str, Any], reader: TableReader, path: KeyPath) -> None:
    minimum, maximum, grade = map(values.get, ("minimum", "maximum", "grade"))
    if minimum is not None and maximum is not None and minimum > maximum:
        reader.report((*path, "minimum"), f"The minimum {minimum} is above the maximum {maximum}.")
    if isinstance(grade, int) and isinstance(minimum, float) and not minimum.is_integer():
        reader.report((*path, "minimum"), f"It must be a whole number like grade, not {minimum}.")
