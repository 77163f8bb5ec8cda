"""What a caller may set, and what is said of a wrong value."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vibe_llms.exceptions import ConfigurationError, ControlError
from vibe_llms.models.controls import (
    Control,
    IntervalControl,
    check_control,
    check_controls,
    describe_control,
)
from vibe_llms.models.definitions import produce_control

ROUNDABLE = st.floats(min_value=-1e6, max_value=1e6)


def define(kind: str, *, name: str = "it", **fields: Any) -> Control:
    return produce_control(name, {"kind": kind, **fields})


@pytest.mark.parametrize(
    ("control", "value"),
    [
        (define("boolean"), True),
        (define("text"), ""),
        (define("interval", minimum=0, maximum=2), 0),
        (define("interval", minimum=0, maximum=2), 2.0),
        (define("interval"), -1e300),
        (define("options", options=["low", 1, True]), "low"),
        (define("sequence", element={"kind": "text"}, maximum_items=2), ["a", "b"]),
        (define("sequence", element={"kind": "text"}), []),
        (define("dictionary", element={"kind": "interval", "minimum": 0}), {"a": 1}),
    ],
)
def test_a_value_inside_its_control_is_returned_as_it_is(control: Control, value: Any) -> None:
    """A right value passes unchanged."""
    assert check_control(control, value) == value


@pytest.mark.parametrize(
    ("control", "value", "fault"),
    [
        (define("boolean"), 1, "must be true or false, not a number"),
        (define("text"), None, "must be a text, not nothing"),
        (define("interval"), True, "must be a number, not true or false"),
        (define("interval"), math.nan, "must be a finite number"),
        (define("interval"), 10**400, "must be a finite number"),
        (define("interval", minimum=0), -0.1, "must be at least 0, not -0.1"),
        (define("interval", maximum=2), 3, "must be at most 2, not 3"),
        (define("interval", grade=1), 1.5, "must be a whole number, not 1.5"),
        (define("interval", minimum=1, grade=2), 4, "must be a multiple of its step, not 4"),
        (define("options", options=[1]), True, "must be one of the options, not True"),
        (define("sequence", element={"kind": "text"}), "END", "not a text"),
        (define("sequence", element={"kind": "text"}, maximum_items=1), ["a", "b"], "not 2"),
        (define("dictionary", element={"kind": "text"}), ["a"], "not a list"),
    ],
)
def test_a_wrong_value_is_told_what_it_must_be(control: Control, value: Any, fault: str) -> None:
    """An error names the control and the rule, and its remedy says what would do."""
    with pytest.raises(ControlError) as caught:
        check_control(control, value)

    assert fault in str(caught.value)
    assert caught.value.control == "it"
    assert describe_control(control) in caught.value.remedy


def test_a_fault_deep_inside_is_named_by_its_path() -> None:
    """The path leads to the element that is wrong."""
    control = define("dictionary", element={"kind": "sequence", "element": {"kind": "text"}})

    with pytest.raises(ControlError) as caught:
        check_control(control, {"a": ["x", 5]})

    assert caught.value.path == "controls.it.a[1]"


def test_a_whole_number_written_as_a_float_becomes_whole() -> None:
    """A control of whole numbers takes 40.0 for 40, as JSON does."""
    checked = check_control(define("interval", grade=1), 40.0)

    assert (checked, type(checked)) == (40, int)


@given(steps=st.integers(-(10**6), 10**6), grade=st.sampled_from([0.1, 0.25, 0.01, 1e-3, 3.7]),
       minimum=st.sampled_from([0, 0.5, -2, -1.1]))  # fmt: skip
def test_a_multiple_of_the_grade_is_taken_whatever_floats_make_of_it(
    steps: int, grade: float, minimum: float
) -> None:
    """Steps count from the minimum, and rounding of floats is forgiven."""
    steps = abs(steps)
    control = IntervalControl(name="it", minimum=minimum, grade=grade)

    value = minimum + steps * grade

    assert check_control(control, value) == value


@given(steps=st.integers(0, 10**6), grade=st.sampled_from([0.1, 0.25, 0.01, 3.7]))
def test_a_value_between_two_steps_is_refused(steps: int, grade: float) -> None:
    """Half a step is off the grade."""
    control = IntervalControl(name="it", minimum=0, grade=grade)

    with pytest.raises(ControlError, match="step"):
        check_control(control, (steps + 0.5) * grade)


@given(value=st.integers(), minimum=st.integers(), grade=st.integers(1, 1000))
def test_whole_steps_are_counted_exactly(value: int, minimum: int, grade: int) -> None:
    """For whole numbers nothing is rounded, however large they are."""
    assume(value >= minimum)
    control = IntervalControl(name="it", minimum=minimum, grade=grade)

    if (value - minimum) % grade:
        with pytest.raises(ControlError):
            check_control(control, value)
    else:
        assert check_control(control, value) == value


@given(value=ROUNDABLE, low=ROUNDABLE, high=ROUNDABLE)
def test_both_bounds_of_an_interval_belong_to_it(value: float, low: float, high: float) -> None:
    """A value is taken if and only if it lies between the bounds or on one."""
    low, high = sorted((low, high))
    control = IntervalControl(name="it", minimum=low, maximum=high)

    if low <= value <= high:
        assert check_control(control, value) == value
    else:
        with pytest.raises(ControlError):
            check_control(control, value)


def test_an_unknown_control_gets_the_nearest_name() -> None:
    """A slip of the pen is answered with the name that was meant."""
    controls = [define("interval", name="temperature")]

    with pytest.raises(ControlError, match="Did you mean 'temperature'") as caught:
        check_controls({"temprature": 1}, controls)

    assert caught.value.path == "controls.temprature"


def test_an_unlike_name_gets_the_names_there_are() -> None:
    """Where no name is near, all are told."""
    controls = [define("interval", name="seed")]

    with pytest.raises(ControlError, match="Known: seed"):
        check_controls({"zzz": 1}, controls)


def test_controls_that_are_not_given_are_not_filled_in() -> None:
    """Checking adds no defaults: what is sent is what was said."""
    controls = [define("interval", name="seed", default=5),
                define("interval", name="top_k", grade=1)]  # fmt: skip

    assert check_controls({"top_k": 3.0}, controls) == {"top_k": 3}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "it: Missing key 'kind'"),
        ({"kind": "intervall"}, "did you mean 'interval'"),
        ({"kind": "interval", "maximun": 2}, "did you mean 'maximum'"),
        ({"kind": "interval", "minimum": 2, "maximum": 1}, "above the maximum"),
        ({"kind": "interval", "grade": 0}, "above 0"),
        ({"kind": "interval", "grade": 1, "minimum": 0.5}, "whole number"),
        ({"kind": "interval", "minimum": "0"}, "minimum: It must be a finite number"),
        ({"kind": "interval", "maximum": math.inf}, "finite number"),
        ({"kind": "interval", "maximum": 1, "default": 2}, "default: It must be at most 1, not 2"),
        ({"kind": "options"}, "Missing key 'options'"),
        ({"kind": "options", "options": [[]]}, "options: It must be a list of at least one"),
        ({"kind": "sequence"}, "Missing key 'element'"),
        ({"kind": "sequence", "element": {"kind": "text"}, "maximum_items": 0}, "of at least 1"),
        ({"kind": "sequence", "element": {"kind": "txt"}}, "did you mean 'text'"),
        ({"kind": "sequence", "element": {"kind": "text", "default": ""}}, "have no default"),
    ],
)
def test_a_definition_that_makes_no_control_says_why(fields: Any, message: str) -> None:
    """A mistake in a definition names the word that is wrong, and the nearest right one."""
    with pytest.raises(ConfigurationError) as caught:
        produce_control("it", fields)

    (finding,) = caught.value.findings
    assert message in str(finding)
