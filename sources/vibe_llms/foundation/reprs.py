"""Representations of values in a shell or a log: one line, even of large values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from reprlib import recursive_repr
from typing import Any, Final

LINE_CHARACTERS: Final = 120
"""Maximum length of a representation."""

_VALUE_CHARACTERS: Final = 48


def represent(name: str, parts: Iterable[tuple[str, object]]) -> str:
    """Format a name and its parts, up to the maximum length.

    Args:
        parts: Names and values; a value with an empty name is shown alone, without ``name=``.
    """
    text = f"{name}("
    is_first = True
    for label, value in parts:
        part = f"{label}={shorten_value(value)}" if label else shorten_value(value)
        if not is_first:
            part = f", {part}"
        elif label and len(text) + len(part) > LINE_CHARACTERS // 2:
            part = f"{label}={type(value).__name__}(…)"  # leave room for the other parts
        if len(text) + len(part) > LINE_CHARACTERS - 4:
            return f"{text}{'' if is_first else ', '}…)"
        text += part
        is_first = False
    return f"{text})"


@recursive_repr()
def represent_fields(value: Any) -> str:
    """Format an attrs value: the fields that differ from their defaults."""
    return represent(type(value).__name__, _survey_fields(value))


def shorten_value(value: object) -> str:
    """Format a value in a small part of a line."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value):,} bytes>"
    if isinstance(value, str):
        # Truncated first: a text may be megabytes.
        short = value[:_VALUE_CHARACTERS]
        return f"{str.__repr__(short)}{'' if short == value else '…'}"
    if isinstance(value, (list, tuple, Mapping)) and len(value) > 1:
        if len(value) <= _VALUE_CHARACTERS // 4 and len(text := repr(value)) <= _VALUE_CHARACTERS:
            return text
        kinds = {type(each).__name__ for each in value}
        return f"<{len(value):,} {kinds.pop() if len(kinds) == 1 else 'items'}>"
    if isinstance(value, (list, tuple)) and value:
        return f"[{shorten_value(value[0])}]"
    text = " ".join(repr(value).split())
    return text if len(text) <= _VALUE_CHARACTERS * 2 else f"{text[: _VALUE_CHARACTERS * 2]}…"


def _survey_fields(value: Any) -> Iterable[tuple[str, object]]:
    import attrs  # imported here: `vibe list` sanitizes texts, and does not need it

    positional = True
    for field in attrs.fields(type(value)):
        member = getattr(value, field.name, None)
        if not field.init or field.repr is not True or member is None:
            continue
        if member in (field.default, (), {}):
            continue
        if field.name in ("id", "timestamp"):  # different for each value, and rarely of interest
            continue
        positional = positional and not field.kw_only
        yield ("" if positional else field.name), member


_VISIBLE = {number: 0x2400 + number for number in range(32) if chr(number) not in "\n\t"}
_VISIBLE[0x7F] = 0x2421
# Unicode has no symbols for these. One of them, 0x9B, begins terminal commands, as Escape does.
_VISIBLE |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_VISIBLE |= dict.fromkeys(
    (*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD
)  # text direction
# Some programs treat these as line ends.
_VISIBLE |= dict.fromkeys((0x2028, 0x2029), 0x2424)


def sanitize(text: str) -> str:
    """Make control characters visible, so that a text cannot send commands to a terminal.

    Overrides of the text direction are replaced, too, as they can disguise a text. Line ends, tabs,
    joiners of letters and plain direction marks stay.
    """
    return text.translate(_VISIBLE)


def escape(text: str) -> str:
    """Write a text as HTML, with its control characters made visible."""
    import html

    return html.escape(sanitize(text))
