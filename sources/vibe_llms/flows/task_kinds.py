"""Kinds of values in task files, in addition to those of every table."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from vibe_llms.configuration.definitions import is_plugin_name
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.linear_regex import PATTERN_CHARACTERS
from vibe_llms.foundation.secrets import KEY_SHAPES
from vibe_llms.tables.annotations import ListKind, MappingKind
from vibe_llms.tables.kinds import FAULTY, Kind, KindReader, is_list, is_number, is_text, is_whole
from vibe_llms.tables.paths import KeyPath

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_KEY_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_NAME: Final = re.compile(r"[^\s{}:|](?:[^{}\n\r\0]*[^\s{}])?")
_KEY_CHARACTERS: Final = 20
"""Number of capitals and digits without a '_' from which a text is not the name of a variable."""


def is_variable(value: Any) -> bool:
    """Tell whether a value can name a variable."""
    return isinstance(value, str) and _VARIABLE.fullmatch(value) is not None


def is_key_variable(value: Any) -> bool:
    """Tell whether a value names an environment variable, and is certainly not a key itself."""
    return (
        isinstance(value, str)
        and _KEY_VARIABLE.fullmatch(value) is not None
        and ("_" in value or len(value) < _KEY_CHARACTERS)
        and KEY_SHAPES.search(value.encode()) is None
    )


def is_name(value: Any) -> bool:
    """Tell whether a value can be a name in a template: a single line without braces."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def read_whole(value: JsonValue) -> int | None:
    """Return an integer of at least 1, which may be written as a text."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value, re.ASCII):
        value = int(value)
    return value if is_whole(value) and isinstance(value, int) and value >= 1 else None


def _is_single(value: Any) -> bool:
    return isinstance(value, (str, bool, Mapping)) or _is_finite(value)


def _is_finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)


EXPECTED: Final = Kind("a text, a number, true or false, or a table", _is_single)
PLAIN: Final = Kind(
    "a text, a number, true or false, or a list or table of these",
    lambda value: _is_single(value) or is_list(value),
)
PROVIDER: Final = Kind(
    "the name of a provider", lambda value: isinstance(value, str) and is_plugin_name(value)
)
KEY_VARIABLE: Final = Kind(
    "the name of an environment variable in capitals, such as ANTHROPIC_API_KEY, never the "
    "key itself",
    is_key_variable,
    is_shown=False,
)
TEMPERATURE: Final = Kind("a number of at least 0", lambda value: _is_finite(value) and value >= 0)
NAME: Final = Kind("a name on one line, without braces", is_name)
PATTERN: Final = Kind(
    f"a regular expression of at most {PATTERN_CHARACTERS} characters",
    lambda value: is_text(value) and len(value) <= PATTERN_CHARACTERS,
)


class UniqueList(ListKind):
    """List of tables with unique ``name`` values."""

    __slots__ = ()

    def read(self, value: Any, path: KeyPath, reader: KindReader) -> Any:
        result = super().read(value, path, reader)
        names = [_find_name(each) for each in value] if is_list(value) else []
        for index, name in enumerate(names):
            if name and name in names[:index]:
                reader.report(
                    (*path, index, "name"),
                    f"The name {name!r} is already used; choose another.",
                )
                result = FAULTY
        return result


def _find_name(value: Any) -> str:
    name = value.get("name") if isinstance(value, Mapping) else getattr(value, "name", None)
    return name if isinstance(name, str) else ""


class NamedMapping(MappingKind):
    """Table with names as keys, and values of one kind."""

    __slots__ = ("is_name", "rule")

    def __init__(self, element: Kind, is_name: Callable[[Any], bool], rule: str) -> None:
        super().__init__(element)
        self.is_name = is_name
        self.rule = rule

    def read(self, value: Any, path: KeyPath, reader: KindReader) -> Any:
        result = super().read(value, path, reader)
        for name in value if isinstance(value, Mapping) else ():
            if not self.is_name(name):
                reader.report((*path, name), self.rule)
                result = FAULTY
        return result
