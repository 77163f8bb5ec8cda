"""Values made of what is known to be right.

A value of ours checks what it is given. Where the parts were checked a moment before, by a typed
decoder or by the values that they come from, checking again is most of what a small answer costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import attrs

_T = TypeVar("_T")


def trusted(kind: type[_T]) -> Callable[..., _T]:
    """Returns what makes values of a class of attrs without checking or converting anything.

    It takes the fields by name. What is left out has its default; where that is made anew each
    time (an id, a moment, a dictionary), it must be given. Its source is written here, as attrs
    writes that of the class: what is told by name, and looks defaults up, takes twice as long.

    Args:
        kind: The class, which has no slots.
    """
    known: dict[str, Any] = {"_make": object.__new__, "_kind": kind}
    named, lines = [], []
    for field in attrs.fields(kind):  # type: ignore[arg-type]  # it is one of attrs
        is_made = isinstance(field.default, attrs.Factory)  # type: ignore[arg-type]
        if is_made or field.default is attrs.NOTHING:
            named.append(field.name)
        else:
            known[f"_{field.name}"] = field.default
            named.append(f"{field.name}=_{field.name}")
        # They stand in the order in which a value is written down.
        lines.append(f"    _held[{field.name!r}] = {field.name}\n")
    source = (
        f"def produce(*, {', '.join(named)}):\n"
        "    _made = _make(_kind)\n"
        "    _held = _made.__dict__\n"
        f"{''.join(lines)}"
        "    return _made\n"
    )
    exec(compile(source, f"<trusted {kind.__qualname__}>", "exec"), known)
    produce: Callable[..., _T] = known["produce"]
    return produce
