"""How a later value meets an earlier one: it replaces it, unless it says otherwise.

A value in an attribute file replaces the value of the earlier layers. A table with exactly one
key, which is one of the three words below, says what else to do:

- ``{ merge = [...] }`` appends to the earlier list what it lacks;
- ``{ merge = {...} }`` changes the named keys of the earlier table, each by these same rules;
- ``{ replace = ... }`` replaces, for a value that would itself look like one of these;
- ``{ remove = true }`` makes the value absent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vibe_llms.foundation.json_types import JsonValue, is_same
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.tables.kinds import is_list, name_kind

DIRECTIVES = ("merge", "replace", "remove")


class MergeError(ValueError):
    """Two values that cannot be merged; the text says why. Never leaves this package."""


def read_directive(value: JsonValue) -> tuple[str, JsonValue]:
    """Splits a value into what to do, one of :data:`DIRECTIVES`, and with what.

    Raises:
        MergeError: The directive is not followed by what it needs.
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
    """Returns what holds after the later layer has spoken.

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
    """Appends what the earlier list lacks. Associative: the grouping of layers is no matter."""
    merged: list[JsonValue] = []
    for value in (*earlier, *later):
        if not any(is_same(value, known) for known in merged):
            merged.append(value)
    return merged


def merge_tables(
    earlier: Mapping[str, JsonValue], later: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Changes the keys that the later table names. Associative for tables of plain values."""
    merged = dict(earlier)
    for key, value in later.items():
        result = merge_values(merged.get(key, ABSENT), value)
        if result is ABSENT:
            merged.pop(key, None)
        else:
            merged[key] = result
    return merged
