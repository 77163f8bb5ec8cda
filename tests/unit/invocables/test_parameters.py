"""Parameters of functions are those that ``inspect`` and ``typing`` report."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

import pytest

from vibe_llms.exceptions import RequestError
from vibe_llms.invocables.parameters import EMPTY, list_parameters

Alias = list[int]


def _take_none() -> None: ...


def _take_all(
    first: int, /, second: str = "2", *rest: float, third: bool, fourth: Any = None, **others: bytes
) -> None: ...


def _take_names(first: int, /, second: Alias, *, third: int | None = None, fourth: str) -> None: ...


def _take_unannotated(first, second=2, *, third=3):  # type: ignore[no-untyped-def]
    ...


@functools.wraps(_take_all)
def _wrap(*arguments: Any, **others: Any) -> None: ...


class _Callable:
    def __call__(self, first: int, second: str = "") -> None: ...

    def take(self, first: int) -> None: ...


def _declare() -> Callable[..., None]:
    def take(first: int) -> None: ...

    take.__signature__ = inspect.signature(lambda other=3: None)  # type: ignore[attr-defined]
    return take


@pytest.mark.parametrize(
    "function",
    [
        _take_none,
        _take_all,
        _take_names,
        _take_unannotated,
        _wrap,
        _Callable(),
        _Callable().take,
        _declare(),
        functools.partial(_take_names, 1),
    ],
)
def test_parameters_are_those_of_the_signature(function: Any) -> None:
    """Names, kinds and defaults are those of the signature; types are evaluated annotations."""
    annotated = function.func if isinstance(function, functools.partial) else function
    annotated = annotated.__call__ if isinstance(annotated, _Callable) else annotated
    hints = typing.get_type_hints(inspect.unwrap(annotated), include_extras=True)

    parameters = list_parameters(function, "f")

    expected = [
        (each.name, each.kind, each.default, hints.get(each.name, EMPTY))
        for each in inspect.signature(function).parameters.values()
    ]
    assert [(each.name, each.kind, each.default, each.hint) for each in parameters] == expected


def test_a_global_hides_a_class_of_python() -> None:
    """A name in an annotation is looked up in the module of the function first."""
    names: dict[str, Any] = {}
    source = "from __future__ import annotations\nint = str\ndef f(a: int, b: bool): ..."
    exec(source, names)

    assert [each.hint for each in list_parameters(names["f"], "f")] == [str, bool]


def test_an_unknown_name_is_refused() -> None:
    """An annotation that contains an unknown name is an error."""
    names: dict[str, Any] = {}
    exec("from __future__ import annotations\ndef f(a: unknown): ...", names)

    with pytest.raises(RequestError, match="unknown"):
        list_parameters(names["f"], "f")
