"""Merging of a later value with an earlier one: it replaces it, unless it is a directive.

A value in an attribute file replaces the value of the earlier layers. A table with exactly one
key, ``merge``, ``replace`` or ``remove``, is a directive:

- ``{ merge = [...] }`` appends the items that the earlier list lacks;
- ``{ merge = {...} }`` changes these keys of the earlier table, each by the same rules;
- ``{ replace = ... }`` replaces, for a value that would itself look like a directive;
- ``{ remove = true }`` makes the value absent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vibe_llms.foundation.json_types import JsonValue, is_same
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.tables.kinds import is_list, name_kind

DIRECTIVES = ("merge", "replace", "remove")


class MergeError(ValueError):
    """Two values cannot be merged; the text says why. Never raised outside of this package."""


def read_directive(value: JsonValue) -> tuple[str, JsonValue]:
    """Split a value into a directive, one of :data:`DIRECTIVES`, and its content.

    Raises:
        MergeError: The content of the directive is invalid.
    """
    if not isinstance(value, Mapping) or len(value) != 1:
        return "replace", value
    ((word, content),) = value.items()
    if word not in DIRECTIVES:
        return "replace", value
    if word == "remove" and content is not True:
        raise MergeError("'remove' takes only true")
    if word == "merge" and not isinstance(content, Mapping) and not is_list(content):
        raise MergeError(f"'merge' takes a list or a table, not {name_kind(content)}")
    return word, content


def merge_values(earlier: JsonValue | Absence, later: JsonValue) -> JsonValue | Absence:
    """Return the merged value.

    Raises:
        MergeError: The later value is to be merged into one of another kind.
    """
    word, content = read_directive(later)
    if word == "remove":
        return ABSENT
    if word == "replace":
        return content
    if isinstance(content, Mapping):
        if earlier is not ABSENT and not isinstance(earlier, Mapping):
            raise MergeError(f"a table cannot be merged into {name_kind(earlier)}")
        return merge_tables({} if earlier is ABSENT else earlier, content)
    assert isinstance(content, Sequence)
    if earlier is ABSENT:
        return merge_lists((), content)
    if not is_list(earlier):
        raise MergeError(f"a list cannot be merged into {name_kind(earlier)}")
    assert isinstance(earlier, Sequence)
    return merge_lists(earlier, content)


def merge_lists(earlier: Sequence[JsonValue], later: Sequence[JsonValue]) -> list[JsonValue]:
    """Append the items that the earlier list lacks.

    Associative: it does not matter which of three lists are merged first.
    """
    merged: list[JsonValue] = []
    for value in (*earlier, *later):
        if not any(is_same(value, known) for known in merged):
            merged.append(value)
    return merged


def merge_tables(
    earlier: Mapping[str, JsonValue], later: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Change the keys that the later table has. Associative for tables of plain values."""
    merged = dict(earlier)
    for key, value in later.items():
        result = merge_values(merged.get(key, ABSENT), value)
        if result is ABSENT:
            merged.pop(key, None)
        else:
            merged[key] = result
    return merged
