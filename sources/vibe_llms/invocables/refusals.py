"""Refusals for a model, in words that it can act on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from vibe_llms.invocables.outcomes import fail

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Refusal(Exception):
    """A request cannot be met; the text tells the model the reason and the alternatives."""


def explain_refusals(function: _Function) -> _Function:
    """Turn the refusals that a plain function raises into outcomes."""

    @functools.wraps(function)
    def perform(*positional: Any, **named: Any) -> Any:
        try:
            return function(*positional, **named)
        except Refusal as refusal:
            return fail(str(refusal))

    return cast(_Function, perform)
