"""Values made of what is known to be right.

A value of ours checks what it is given. Where the parts were checked a moment before, by a typed
decoder or by the values that they come from, checking again is most of what a small answer costs.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import attrs

_T = TypeVar("_T")
_write = object.__setattr__  # the values are frozen for all others


def trust(kind: type[_T], /, **fields: Any) -> _T:
    """Makes a value of attrs as it is told, without checking or converting anything.

    Args:
        kind: Its class, which has no slots.
        fields: As the value will hold them. What is left out has its default; where that is made
            anew each time (an id, a moment), it must be given.
    """
    made: _T = object.__new__(kind)
    # The defaults stand in the order in which a value is written down.
    _write(made, "__dict__", _survey(kind) | fields)  # type: ignore[arg-type]  # classes are hashable
    return made


@functools.cache
def _survey(kind: type[Any]) -> dict[str, Any]:
    """Returns the defaults in the order of the fields."""
    return {
        field.name: None
        if field.default is attrs.NOTHING or isinstance(field.default, attrs.Factory)  # type: ignore[arg-type]
        else field.default
        for field in attrs.fields(kind)
    }
