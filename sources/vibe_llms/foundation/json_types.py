"""Types of plain data: values that JSON and TOML can represent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

if TYPE_CHECKING:
    JsonValue: TypeAlias = (
        None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
    )
else:
    JsonValue = Any  # evaluating the recursive annotation at run time would never end
JsonObject: TypeAlias = Mapping[str, JsonValue]


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer; a boolean is not, although Python makes it one."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_encodable(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8: it has no lone surrogates."""
    if str.isascii(text):
        return True
    try:
        str.encode(text, "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def escape_surrogates(text: str) -> str:
    r"""Make a text valid: join surrogate pairs, and write lone surrogates as ``\udce9``.

    Python represents bytes that are not UTF-8 as lone surrogates, for example in file names, and
    JSON may have some. As escapes they are visible, and different names stay different.
    """
    if is_encodable(text):
        return str.__str__(text)
    joined = str.encode(text, "utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return joined.encode("utf-8", "backslashreplace").decode("utf-8")


def is_same(first: JsonValue, second: JsonValue) -> bool:
    """Return whether two values have the same JSON, at any depth: in Python ``True`` equals 1."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(is_same(first[k], second[k]) for k in first)
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(is_same, first, second))
    return first == second
