"""Parameters of functions, with their types and defaults."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import attrs

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.members import read_hints

EMPTY: Final = inspect.Parameter.empty
_POSITIONAL_ONLY: Final = inspect.Parameter.POSITIONAL_ONLY
_POSITIONAL: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD

_Row: TypeAlias = tuple[str, Any, Any, Any]
"""The name, the kind, the default and the annotation of a parameter."""


@frozen
class Parameter:
    """Parameter of a function; kind and default have the values of ``inspect``."""

    name: str
    kind: Any
    hint: Any
    default: Any
    is_context: bool = attrs.field(init=False)  # a field, because every call reads it

    @is_context.default
    def _find_context(self) -> bool:
        hint = self.hint
        return hint is InvocationContext or (
            type(hint) is not type and InvocationContext in typing.get_args(hint)
        )

    @property
    def is_required(self) -> bool:
        """True if the parameter has no default."""
        return self.default is EMPTY


def list_parameters(function: Callable[..., Any], name: str) -> tuple[Parameter, ...]:
    """Return the parameters of a function or of a callable object.

    Args:
        name: The name of the invocable, for errors.

    Raises:
        RequestError: The parameters are unknown, or an annotation contains an unknown name.
    """
    try:
        rows = _list_rows(function)
    except (TypeError, ValueError) as error:
        raise refuse_function(
            name, "its parameters are unknown", "Wrap it in a function."
        ) from error
    hints = read_hints(_find_annotated(function), name)
    return tuple(
        [
            Parameter(parameter, kind, hints.get(parameter, annotation), default)
            for parameter, kind, default, annotation in rows
        ]
    )


def _list_rows(function: Callable[..., Any]) -> list[_Row]:
    """List the parameters; those of plain functions without ``inspect``, which takes 7 µs."""
    if type(function) is types.FunctionType and _FOREIGN.isdisjoint(function.__dict__):
        return _read_code(function)
    parameters = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default, each.annotation) for each in parameters]


_FOREIGN: Final = frozenset({"__wrapped__", "__signature__"})
"""Attributes that give a function the parameters of another one."""


def _read_code(function: types.FunctionType) -> list[_Row]:
    """List the parameters of a plain function, without its annotations."""
    code = function.__code__
    names, count = code.co_varnames, code.co_argcount
    defaults = function.__defaults__ or ()
    required = count - len(defaults)
    rows: list[_Row] = []
    for index, name in enumerate(names[:count]):
        kind = _POSITIONAL_ONLY if index < code.co_posonlyargcount else _POSITIONAL
        rows.append((name, kind, EMPTY if index < required else defaults[index - required], EMPTY))
    end = count + code.co_kwonlyargcount
    has_others = code.co_flags & inspect.CO_VARARGS
    if has_others:
        rows.append((names[end], inspect.Parameter.VAR_POSITIONAL, EMPTY, EMPTY))
    for name in names[count:end]:
        default = (function.__kwdefaults__ or {}).get(name, EMPTY)
        rows.append((name, inspect.Parameter.KEYWORD_ONLY, default, EMPTY))
    if code.co_flags & inspect.CO_VARKEYWORDS:
        place = end + 1 if has_others else end
        rows.append((names[place], inspect.Parameter.VAR_KEYWORD, EMPTY, EMPTY))
    return rows


def _find_annotated(function: Any) -> Any:
    """Return the annotated function of a partial, or the ``__call__`` of a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    is_routine = inspect.isroutine(function) or inspect.isclass(function)
    return function if is_routine else type(function).__call__


def refuse_function(name: str, problem: str, remedy: str) -> RequestError:
    """Create the error for a function that cannot be an invocable."""
    detail = f"Invalid invocable {name!r}: {problem}."
    return RequestError(path=name, detail=detail, remedy=remedy, stage=Stage.CONFIGURE)
