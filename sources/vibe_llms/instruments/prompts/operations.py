"""Operations of templates other than filters: printing, concatenation, arithmetic, calls.

Templates can use only the operations that are defined here. They can read values and choose among
them, but have no side effects: only harmless methods of plain values can be called.
"""

from __future__ import annotations

import datetime
import functools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from jinja2 import Undefined
from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext, Macro
from jinja2.utils import Namespace

from vibe_llms.instruments.prompts.rendering_budgets import BUDGET
from vibe_llms.messages.contents import CONTENT_CLASSES

_CONTENTS: Final = tuple(CONTENT_CLASSES.values())
_UNPRINTABLE: Final = (LoopContext, Macro, Namespace, Iterator, type, types.ModuleType)
_DATE_EXPANSION: Final = 256
"""Maximum factor by which a formatted date is longer than its format."""
_DIGITS: Final = 10_000
"""Maximum number of digits of an integer."""


def produce_text(value: Any) -> str:
    """Return the text of a value in a prompt; for a content, such as an image, a placeholder."""
    budget = BUDGET.get()
    if isinstance(value, Undefined):
        return str(value)  # raises an error that names it
    if isinstance(value, _CONTENTS):
        return budget.content_marks.add(value)
    if isinstance(value, _UNPRINTABLE) or callable(value) or _prints_only_address(type(value)):
        raise SecurityError(
            f"Values of the type {type(value).__name__!r} cannot be printed: print their "
            "parts, or use |list or |join."
        )
    budget.count_contents(value, is_printed=True)
    return str(value)


def _prints_only_address(kind: Any) -> bool:
    """Return whether values of a class would be printed as their memory address only."""
    inherits: bool = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
    return inherits


def concatenate(first: Any, *others: Any) -> str:
    """Apply the operator ``~``."""
    texts = [produce_text(each) for each in (first, *others)]
    BUDGET.get().reserve(sum(map(len, texts)))
    return "".join(texts)


def join(values: Any, separator: Any = "") -> str:
    """Join texts with a separator."""
    between = produce_text(separator)
    texts = [produce_text(each) for each in limit_loop(values, len(between))]
    BUDGET.get().reserve(sum(map(len, texts)) + len(between) * len(texts))
    return between.join(texts)


def replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    """Replace one text by another."""
    text, old, new = produce_text(value), produce_text(old), produce_text(new)
    BUDGET.get().reserve(len(text) + text.count(old) * len(new))
    return text.replace(old, new, -1 if count is None else count)


def format_time(moment: Any, form: Any) -> str:
    """Format a date or time."""
    text = produce_text(form)
    # The C library accepts a width in each directive, so the result may be much longer.
    BUDGET.get().reserve(_DATE_EXPANSION * len(text))
    return str(moment.strftime(text))


def count_contents(value: Any) -> Any:
    """Count everything that a value contains towards the budget; return the value."""
    BUDGET.get().count_contents(value)
    return value


def limit_loop(values: Any, size: int = 0) -> Iterable[Any]:
    """Return the values of a loop; raise an error where the budget is used up.

    Args:
        size: Number of characters that the loop creates for each value.
    """
    return BUDGET.get().count_loop(iter(values), size)


# Operators


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
        BUDGET.get().reserve(len(left) + len(right))
    return left + right


def _multiply(left: Any, right: Any) -> Any:
    for sequence, number in ((left, right), (right, left)):
        if isinstance(sequence, (str, bytes, list, tuple)) and isinstance(number, int):
            BUDGET.get().reserve(len(sequence) * max(number, 0))
        if isinstance(number, int):
            _ensure_size(number.bit_length())
    return count_contents(left * right)


def _raise_to(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _ensure_size(left.bit_length() * abs(right))
    return left**right


def _take_remainder(left: Any, right: Any) -> Any:
    if isinstance(left, (str, bytes)):
        raise SecurityError("'%' is for numbers; combine texts with |format or ~.")
    return left % right


def _ensure_size(bits: int) -> None:
    if bits > 3 * _DIGITS:  # a digit has more than 3 bits
        raise SecurityError(f"A number in a prompt has at most {_DIGITS} digits.")


OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": _add,
    "*": _multiply,
    "**": _raise_to,
    "%": _take_remainder,
}

# Calls


def _list_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DATES_AND_TIMES: Final = (datetime.date, datetime.time)
_METHODS: Final[tuple[tuple[Any, frozenset[str]], ...]] = (
    (
        str,
        _list_words(
            "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal"
            " isdigit islower isnumeric isspace istitle isupper lower lstrip partition"
            " removeprefix removesuffix rfind rindex rpartition rsplit rstrip split splitlines"
            " startswith strip swapcase title upper"
        ),
    ),
    (Mapping, _list_words("get items keys values")),
    ((list, tuple), _list_words("count index")),
    (
        _DATES_AND_TIMES,
        _list_words("date isoformat isoweekday time weekday"),
    ),
    (LoopContext, _list_words("changed cycle")),
)


def choose_callable(function: Any, permitted: Iterable[Any]) -> Any:
    """Return a function or method that a template calls, or its replacement within the budget.

    Args:
        permitted: Functions that templates may call.

    Raises:
        SecurityError: Templates must not call this.
    """
    if isinstance(function, (Macro, Undefined)) or any(function is each for each in permitted):
        return function  # calling an undefined value raises an error that names it
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(owner, str) and name == "join":
        return functools.partial(join, separator=owner)
    if isinstance(owner, str) and name == "replace":
        return functools.partial(replace, owner)
    if isinstance(owner, _DATES_AND_TIMES) and name == "strftime":
        return functools.partial(format_time, owner)
    if any(isinstance(owner, kinds) and name in names for kinds, names in _METHODS):
        return function
    raise SecurityError(
        f"A template cannot call {name or type(function).__name__!r}: it may only read "
        f"values.{' Use the filter |format.' if name in ('format', 'format_map') else ''}"
    )
