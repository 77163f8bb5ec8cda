"""Filters of prompts: Jinja's suitable ones, within the budget."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS as JINJAS
from jinja2.filters import make_attrgetter
from jinja2.utils import pass_environment, pass_eval_context

from vibe_llms.instruments.prompts.operations import bound_loop, join, produce_text, replace, weigh
from vibe_llms.instruments.prompts.rendering_budgets import BUDGET

_WIDTH: Final = 999
"""Maximum width for padding, indenting and rounding."""

_SPECIFICATION: Final = re.compile(
    r"%(?:\([^()]*\))?[-+ #0]*(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?"
)

_NESTED_NAME: Final = re.compile(r"%\([^()]*\(")  # Python would look for its width further on


def _bound(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make one of Jinja's filters count towards the budget."""

    @functools.wraps(function)  # keeps Jinja's attributes about its first argument
    def perform(*arguments: Any, **named: Any) -> Any:
        BUDGET.get().tick()
        made = function(*arguments, **named)
        return bound_loop(made) if isinstance(made, Iterator) else weigh(made)

    return perform


def _bound_textual(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a filter of texts."""
    place = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def perform(*arguments: Any, **named: Any) -> Any:
        given = [*arguments]
        given[place] = produce_text(given[place])
        return weigh(function(*given, **named))

    return perform


def _ensure_width(number: int) -> None:
    if abs(number) > _WIDTH:
        raise SecurityError(f"A width in a prompt is at most {_WIDTH}, not {number}.")


def _join(environment: Any, value: Iterable[Any], d: Any = "", attribute: Any = None) -> str:
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    return join(value, d)


def _indent(value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    text = produce_text(value)
    columns = width if isinstance(width, int) else len(width)
    _ensure_width(columns)
    BUDGET.get().admit(len(text) + (text.count("\n") + 1) * columns)
    return str(JINJAS["indent"](text, width, first, blank))


def _wrap(
    environment: Any,
    value: Any,
    width: int = 79,
    break_long_words: bool = True,
    wrapstring: str | None = None,
    break_on_hyphens: bool = True,
) -> str:
    text = produce_text(value)
    BUDGET.get().admit(len(text) * (1 + len(wrapstring or "")))
    return str(
        JINJAS["wordwrap"](environment, text, width, break_long_words, wrapstring, break_on_hyphens)
    )


def _format(value: Any, *arguments: Any, **named: Any) -> str:
    text = produce_text(value)
    if _NESTED_NAME.search(text):
        raise SecurityError("In a format, a name must not contain parentheses.")
    for found in _SPECIFICATION.finditer(text):
        for number in (found["width"] or "0", found["precision"] or "0"):
            if number == "*":
                raise SecurityError("A format must write widths as numbers, without '*'.")
            # A width with more digits is too large in any case, and slow to read.
            _ensure_width(int(number[:9]))
    # Each may take the maximum width.
    BUDGET.get().admit(len(text) + text.count("%") * _WIDTH)
    if named:
        return text % {name: _produce_formattable(each) for name, each in named.items()}
    return text % tuple(_produce_formattable(each) for each in arguments)


def _produce_formattable(value: Any) -> Any:
    return value if isinstance(value, (int, float)) else produce_text(value)


def _write_json(value: Any, indent: int | None = None) -> str:
    """Write a value as JSON for people and models: without HTML escapes."""
    _ensure_width(indent or 0)
    weigh(value)
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _round(value: Any, precision: int = 0, method: str = "common") -> Any:
    _ensure_width(precision)
    return JINJAS["round"](value, precision, method)


def _sum(environment: Any, iterable: Any, attribute: Any = None, start: Any = 0) -> Any:
    if not isinstance(start, (int, float)):
        raise SecurityError("|sum is for numbers; join texts with |join.")
    return JINJAS["sum"](environment, bound_loop(iterable), attribute, start)


def _batch(value: Any, linecount: int, fill_with: Any = None) -> Any:
    BUDGET.get().admit(linecount)
    return JINJAS["batch"](value, linecount, fill_with)


def _slice(context: Any, value: Any, slices: int, fill_with: Any = None) -> Any:
    BUDGET.get().admit(slices)
    return JINJAS["slice"](context, value, slices, fill_with)


def _list(value: Any) -> Any:
    return list(bound_loop(value, 1))


_KEPT: Final = (
    *("abs", "d", "default", "dictsort", "first", "float", "groupby", "int", "items", "last"),
    *("map", "max", "min", "reject", "rejectattr", "reverse", "select", "selectattr", "sort"),
    "unique",
)
_KEPT_TEXTUAL: Final = (
    *("capitalize", "lower", "string", "title", "trim", "truncate", "upper", "wordcount"),
)
FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    **{name: _bound(JINJAS[name]) for name in _KEPT},
    **{name: _bound_textual(JINJAS[name]) for name in _KEPT_TEXTUAL},
    "batch": _bound(_batch),
    "count": len,
    "format": _format,
    "indent": _indent,
    "join": pass_environment(_join),
    "length": len,
    "list": _list,
    "replace": replace,
    "round": _round,
    "slice": _bound(pass_eval_context(_slice)),
    "sum": pass_environment(_sum),
    "tojson": _write_json,
    "wordwrap": pass_environment(_wrap),
}
"""By name in templates."""
