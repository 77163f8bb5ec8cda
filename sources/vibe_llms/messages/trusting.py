"""Construct values without validation, from parts that are known to be valid.

Our classes validate their fields. If a typed decoder has just checked the parts, or they come from
other values, checking them again would be most of the cost of a small answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import attrs

from vibe_llms.foundation.json_types import is_encodable
from vibe_llms.foundation.method_cache import compile_generated
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
    namespace: dict[str, Any] = {"_make": object.__new__, "_kind": kind}
    parameters, lines = [], []
    for field in attrs.fields(kind):  # type: ignore[arg-type]  # it is one of attrs
        has_factory = isinstance(field.default, attrs.Factory)  # type: ignore[arg-type]
        if has_factory or field.default is attrs.NOTHING:
            parameters.append(field.name)
        else:
            namespace[f"_{field.name}"] = field.default
            parameters.append(f"{field.name}=_{field.name}")
        # In the order in which a value is written.
        lines.append(f"    _fields[{field.name!r}] = {field.name}\n")
    source = (
        f"def produce(*, {', '.join(parameters)}):\n"
        "    _value = _make(_kind)\n"
        "    _fields = _value.__dict__\n"
        f"{''.join(lines)}"
        "    return _value\n"
    )
    name = f"<trusted {kind.__module__}.{kind.__qualname__}>"
    exec(compile_generated(source, name, "exec"), namespace)
    produce: Callable[..., _T] = namespace["produce"]
    return produce


def list_defaults(kind: type) -> dict[str, Any]:
    """Return the fields of a class with their defaults, in the order in which they are written."""
    return {field.name: field.default for field in attrs.fields(kind)}


def find_setter(kind: type) -> Callable[[Any, dict[str, Any]], None]:
    """Return the function that sets the dictionary of an instance, also of a frozen class."""
    descriptors = (vars(base).get("__dict__") for base in kind.__mro__)
    setter: Callable[[Any, dict[str, Any]], None]
    setter = next(each for each in descriptors if each is not None).__set__
    return setter


_copy_text_fields: Final = list_defaults(TextualContent).copy
_set_text_fields: Final = find_setter(TextualContent)
_new: Final = object.__new__


def make_text(text: Any, native: Native | None = None) -> TextualContent:
    """Return a plain text as content, much faster than its constructor. Raises RequestError."""
    if text.__class__ is str and (text.isascii() or is_encodable(text)):
        fields = _copy_text_fields()
        fields["text"] = text
        fields["native"] = native
        content = _new(TextualContent)
        _set_text_fields(content, fields)
        return content
    return TextualContent(text, native=native)
