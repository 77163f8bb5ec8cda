"""Binding: the arguments of a call as those of a Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.contexts import InvocationContext


@frozen
class Bound:
    """Arguments of a function, as Python values."""

    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] = attrs.field(factory=dict)


Binder: TypeAlias = Callable[[JsonObject, InvocationContext], Bound]
"""Turns the arguments of a model into those of a function. Raises Misfit."""


def bind_whole(arguments: JsonObject, context: InvocationContext) -> Bound:
    """Bind a function that takes the arguments as one object, and the context."""
    return Bound((arguments, context))
