"""Plain data: what JSON and TOML can say, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = (
        None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
    )
else:
    JsonValue = Any  # whoever evaluates annotations at run time would never come to an end
JsonObject: TypeAlias = Mapping[str, JsonValue]


def is_whole(text: str) -> bool:
    """Tells whether a text can be written as UTF-8: it holds no half of a surrogate pair."""
    if str.isascii(text):
        return True
    try:
        str.encode(text, "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def escape_halves(text: str) -> str:
    r"""Makes a text whole: halves that belong together are joined, others written as ``\udce9``.

    Python hands out halves for bytes that are no UTF-8, as in names of files, and JSON may hold
    some. Written out, they can be seen, and two names that differ stay different.
    """
    if is_whole(text):
        return str.__str__(text)
    joined = str.encode(text, "utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return joined.encode("utf-8", "backslashreplace").decode("utf-8")


def is_same(first: JsonValue, second: JsonValue) -> bool:
    """Tells whether two values are written alike, at any depth: in Python ``True`` equals 1."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(is_same(first[k], second[k]) for k in first)
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(is_same, first, second))
    return first == second
