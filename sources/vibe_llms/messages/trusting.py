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
from vibe_llms.foundation.slotted_classes import find_draft
from vibe_llms.messages.contents import Native, TextualContent

_T = TypeVar("_T")


def trusted(kind: type[_T]) -> Callable[..., _T]:
    """Return a function that makes values of an attrs class without validation or conversion.

    It takes the fields by name. A field that is left out has its default; one with a default
    factory (an id, a time, a dictionary) must be given. The source of the function is generated, as
    attrs does for constructors: setting fields by name and looking up defaults takes twice as long.
    """
    has_slots = not kind.__dictoffset__
    namespace: dict[str, Any] = {"_kind": kind, "_make": object.__new__}
    parameters, lines = [], []
    for field in attrs.fields(kind):  # type: ignore[arg-type]  # it is one of attrs
        has_factory = isinstance(field.default, attrs.Factory)  # type: ignore[arg-type]
        if has_factory or field.default is attrs.NOTHING:
            parameters.append(field.name)
        else:
            namespace[f"_{field.name}"] = field.default
            parameters.append(f"{field.name}=_{field.name}")
        # In the order in which a value is written.
        target = f"_value.{field.name}" if has_slots else f"_fields[{field.name!r}]"
        lines.append(f"    {target} = {field.name}\n")
    if has_slots:
        namespace["_draft"] = find_draft(kind)
        first, last = "    _value = _draft()\n", "    _value.__class__ = _kind\n"
    else:
        first, last = "    _value = _make(_kind)\n    _fields = _value.__dict__\n", ""
    parts = (f"def produce(*, {', '.join(parameters)}):\n", first, *lines, last)
    source = f"{''.join(parts)}    return _value\n"
    name = f"<trusted {kind.__module__}.{kind.__qualname__}>"
    exec(compile_generated(source, name, "exec"), namespace)
    produce: Callable[..., _T] = namespace["produce"]
    return produce


_TextDraft: Final = find_draft(TextualContent)


def make_text(text: Any, native: Native | None = None) -> TextualContent:
    """Return a plain text as content, much faster than its constructor. Raises RequestError."""
    if text.__class__ is not str or not (text.isascii() or is_encodable(text)):
        return TextualContent(text, native=native)  # raises the error
    content = _TextDraft()
    content.type = "text"
    content.text = text
    content.mime_type = "text/plain"
    content.citations = ()
    content.native = native
    content.__class__ = TextualContent
    text_content: TextualContent = content
    return text_content
