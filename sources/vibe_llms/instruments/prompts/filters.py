"""Filters of prompts: those of Jinja that are safe, limited by the rendering's budget."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.filters import make_attrgetter
from jinja2.utils import pass_environment, pass_eval_context

from vibe_llms.instruments.prompts.operations import (
    count_contents,
    join,
    limit_loop,
    produce_text,
    replace,
)
from vibe_llms.instruments.prompts.rendering_budgets import BUDGET

_WIDTH_LIMIT: Final = 999
"""Maximum width for padding, indenting and rounding."""

_FORMAT_DIRECTIVE: Final = re.compile(
    r"%(?:\([^()]*\))?[-+ #0]*(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?"
)

_NESTED_NAME: Final = re.compile(r"%\([^()]*\(")
"""A name with parentheses: Python would parse the rest differently than ``_FORMAT_DIRECTIVE``."""


def _limit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a filter of Jinja count its results towards the budget."""

    @functools.wraps(function)  # also copies the attributes in which Jinja looks for `pass_…`
    def perform(*arguments: Any, **keywords: Any) -> Any:
        BUDGET.get().check_time()
        result = function(*arguments, **keywords)
        return limit_loop(result) if isinstance(result, Iterator) else count_contents(result)

    return perform


def _limit_textual(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a filter of texts convert its input to text, and count its results."""
    # Jinja passes some filters its environment as the first argument.
    text_index = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def perform(*arguments: Any, **keywords: Any) -> Any:
        converted = [*arguments]
        converted[text_index] = produce_text(converted[text_index])
        return count_contents(function(*converted, **keywords))

    return perform


def _ensure_width(number: int) -> None:
    if abs(number) > _WIDTH_LIMIT:
        raise SecurityError(f"A width in a prompt is at most {_WIDTH_LIMIT}, not {number}.")


def _join(environment: Any, value: Iterable[Any], d: Any = "", attribute: Any = None) -> str:
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    return join(value, d)


def _indent(value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    text = produce_text(value)
    columns = width if isinstance(width, int) else len(width)
    _ensure_width(columns)
    BUDGET.get().reserve(len(text) + (text.count("\n") + 1) * columns)
    return str(JINJA_FILTERS["indent"](text, width, first, blank))


def _wrap(
    environment: Any,
    value: Any,
    width: int = 79,
    break_long_words: bool = True,
    wrapstring: str | None = None,
    break_on_hyphens: bool = True,
) -> str:
    text = produce_text(value)
    BUDGET.get().reserve(len(text) * (1 + len(wrapstring or "")))
    return str(
        JINJA_FILTERS["wordwrap"](
            environment, text, width, break_long_words, wrapstring, break_on_hyphens
        )
    )


def _format(value: Any, *arguments: Any, **keywords: Any) -> str:
    text = produce_text(value)
    if _NESTED_NAME.search(text):
        raise SecurityError("In a format, a name must not contain parentheses.")
    for directive in _FORMAT_DIRECTIVE.finditer(text):
        for number in (directive["width"] or "0", directive["precision"] or "0"):
            if number == "*":
                raise SecurityError("A format must write widths as numbers, without '*'.")
            # A number with more digits exceeds the limit in any case, and is slow to parse.
            _ensure_width(int(number[:9]))
    # Each directive may take the maximum width.
    BUDGET.get().reserve(len(text) + text.count("%") * _WIDTH_LIMIT)
    if keywords:
        return text % {name: _produce_formattable(each) for name, each in keywords.items()}
    return text % tuple(_produce_formattable(each) for each in arguments)


def _produce_formattable(value: Any) -> Any:
    return value if isinstance(value, (int, float)) else produce_text(value)


def _write_json(value: Any, indent: int | None = None) -> str:
    """Write a value as JSON for people and models: without HTML escapes."""
    _ensure_width(indent or 0)
    count_contents(value)
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _round(value: Any, precision: int = 0, method: str = "common") -> Any:
    _ensure_width(precision)
    return JINJA_FILTERS["round"](value, precision, method)


def _sum(environment: Any, iterable: Any, attribute: Any = None, start: Any = 0) -> Any:
    if not isinstance(start, (int, float)):
        raise SecurityError("|sum is for numbers; join texts with |join.")
    return JINJA_FILTERS["sum"](environment, limit_loop(iterable), attribute, start)


def _batch(value: Any, linecount: int, fill_with: Any = None) -> Any:
    BUDGET.get().reserve(linecount)
    return JINJA_FILTERS["batch"](value, linecount, fill_with)


def _slice(context: Any, value: Any, slices: int, fill_with: Any = None) -> Any:
    BUDGET.get().reserve(slices)
    return JINJA_FILTERS["slice"](context, value, slices, fill_with)


def _list(value: Any) -> Any:
    return list(limit_loop(value, 1))


_JINJA_FILTERS: Final = (
    *("abs", "d", "default", "dictsort", "first", "float", "groupby", "int", "items", "last"),
    *("map", "max", "min", "reject", "rejectattr", "reverse", "select", "selectattr", "sort"),
    "unique",
)
_JINJA_TEXT_FILTERS: Final = (
    *("capitalize", "lower", "string", "title", "trim", "truncate", "upper", "wordcount"),
)
FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    **{name: _limit(JINJA_FILTERS[name]) for name in _JINJA_FILTERS},
    **{name: _limit_textual(JINJA_FILTERS[name]) for name in _JINJA_TEXT_FILTERS},
    "batch": _limit(_batch),
    "count": len,
    "format": _format,
    "indent": _indent,
    "join": pass_environment(_join),
    "length": len,
    "list": _list,
    "replace": replace,
    "round": _round,
    "slice": _limit(pass_eval_context(_slice)),
    "sum": pass_environment(_sum),
    "tojson": _write_json,
    "wordwrap": pass_environment(_wrap),
}
"""All filters, by their names in templates."""
