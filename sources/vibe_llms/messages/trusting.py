"""Construction of values without validation, from parts that are known to be valid.

Our values validate their fields. If a typed decoder or other values have just checked the parts,
checking them again is most of the cost of a small answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import attrs

from vibe_llms.foundation.json_types import is_whole
from vibe_llms.messages.contents import Native, TextualContent

_T = TypeVar("_T")


def trusted(kind: type[_T]) -> Callable[..., _T]:
    """Return a function that makes values of an attrs class without validation or conversion.

    It takes the fields by name. A field that is left out has its default; one with a default
    factory (an id, a time, a dictionary) must be given. The source of the function is generated, as
    attrs does for constructors: setting fields by name and looking up defaults takes twice as long.

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
        # In the order in which a value is written.
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


_make_text: Final = trusted(TextualContent)


def make_text(text: Any, native: Native | None = None) -> TextualContent:
    """Return a plain text as content, much faster than its constructor. Raises RequestError."""
    if text.__class__ is str and (text.isascii() or is_whole(text)):
        made: TextualContent = _make_text(text=text, native=native)
        return made
    return TextualContent(text, native=native)
