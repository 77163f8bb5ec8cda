"""Explain data that failed validation, as one of our errors."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from vibe_llms.exceptions import CodecError, RequestError
from vibe_llms.foundation.suggestions import find_near
from vibe_llms.messages.codec.mirrors import (
    REFUSALS,
    REQUIRED_FIELDS,
    access_mirror,
    find_registered,
    find_tag,
    is_union,
)
from vibe_llms.tables.kinds import BOOLEAN

_NAMES: Mapping[type, str] = {
    str: "a text",
    int: "an integer",
    bool: BOOLEAN.words,
    float: "a number",
    list: "a list",
    dict: "an object",
    types.NoneType: "null",
}


def explain(tree: object, kind: Any, path: str, error: Exception) -> CodecError:
    """Return an error about the first invalid value in data that failed validation.

    Args:
        tree: Plain data.
        kind: The type that was expected.
        path: Path of the tree.
        error: The exception, used if no error is found.
    """
    return _find_error(tree, kind, path) or _explain_error(error, path)


def _find_error(tree: Any, kind: Any, path: str) -> CodecError | None:
    if registered := find_registered(kind):
        return None if tree is None else _find_error_of_call(lambda: registered.build(tree), path)
    if is_union(kind):
        members = typing.get_args(kind)
        kinds = [each for each in members if each is not types.NoneType]
        if tree is None and types.NoneType in members:
            return None
        if len(kinds) == 1:
            return _find_error(tree, kinds[0], path)
        return _find_in_union(tree, kinds, path) if all(map(attrs.has, kinds)) else None
    if attrs.has(kind):
        return _find_in_object(tree, kind, path)
    if typing.get_origin(kind) is not tuple:
        return _find_in_plain(tree, kind, path)
    if not isinstance(tree, (list, tuple)):
        return _refuse_kind("a list", tree, path)
    item_kind = typing.get_args(kind)[0]
    errors = (_find_error(each, item_kind, f"{path}[{index}]") for index, each in enumerate(tree))
    return next(filter(None, errors), None)


def _find_in_union(tree: Any, classes: list[Any], path: str) -> CodecError | None:
    if not isinstance(tree, Mapping):
        return _refuse_kind("an object", tree, path)
    known = {find_tag(cls)[1]: cls for cls in classes}
    key, _ = find_tag(classes[0])
    words = tuple(str(word) for word in known)
    if key not in tree:
        return CodecError(path=f"{path}.{key}", detail=f"The field {key!r} is missing", known=words)
    if not isinstance(tree[key], str) or tree[key] not in known:
        return explain_unknown_word(tree[key], words, f"{path}.{key}")
    return _find_in_object(tree, known[tree[key]], path)


def _find_in_object(tree: Any, cls: Any, path: str) -> CodecError | None:
    if not isinstance(tree, Mapping):
        return _refuse_kind("an object", tree, path)
    key, word = find_tag(cls)
    if key is not None and tree.get(key) != word:
        return explain_unknown_word(tree.get(key), (str(word),), f"{path}.{key}")
    known = tuple(field.name for field in attrs.fields(cls))
    fields = [field for field in attrs.fields(cls) if field.init]
    # An unknown field explains a missing one: its name is misspelt.
    if unknown := tree.keys() - {key, *(field.name for field in fields)}:
        # Sorted, as the order of sets differs between processes.
        return explain_unknown_field(min(unknown), cls.__name__, known, path)
    hints = typing.get_type_hints(cls)
    for field in fields:
        place = f"{path}.{field.name}"
        if field.name in tree:
            if error := _find_error(tree[field.name], hints[field.name], place):
                return error
        elif field.default is attrs.NOTHING or field.name in REQUIRED_FIELDS:
            return CodecError(path=place, detail=f"The field {field.name!r} is missing")
    # Each field is valid by itself: the combination is not.
    return _find_error_of_call(lambda: access_mirror(cls).convert(tree), path)


def _find_in_plain(tree: Any, kind: Any, path: str) -> CodecError | None:
    try:
        access_mirror(kind).convert(tree)
    except REFUSALS as error:
        is_enumeration = isinstance(kind, type) and issubclass(kind, enum.Enum)
        words = tuple(str(each.value) for each in kind) if is_enumeration else ()
        if typing.get_origin(kind) is typing.Literal:
            words = typing.get_args(kind)
        if words:
            return explain_unknown_word(tree, words, path)
        is_mapping = (typing.get_origin(kind) or kind) in (Mapping, dict)
        return _explain_misfit(tree, dict if is_mapping else kind, path, error)
    return None


def _explain_misfit(tree: Any, kind: Any, path: str, error: Exception) -> CodecError:
    if kind not in _NAMES and isinstance(tree, str):  # an invalid time or invalid Base64
        return _explain_error(error, path)
    return _refuse_kind(_NAMES.get(kind, "a text"), tree, path)


def _find_error_of_call(read: Callable[[], object], path: str) -> CodecError | None:
    """Return the error that a function raises about the value at a path."""
    try:
        read()
    except REFUSALS as error:
        return _explain_error(error, path)
    return None


def _explain_error(error: Exception, path: str) -> CodecError:
    """Convert an exception to an error about the value at a path."""
    match error:
        case CodecError():
            return CodecError(
                path=path + error.path.removeprefix("$"),
                detail=error.detail,
                known=error.known,
                remedy=error.remedy,
            )
        case RequestError():
            place = path if path.endswith(f".{error.path}") else f"{path}.{error.path}"
            return CodecError(path=place, detail=error.detail, remedy=error.remedy)
    detail = str(error).partition(" - at `")[0]  # the place within the value alone
    return CodecError(path=path, detail=detail or type(error).__name__)


def _refuse_kind(wanted: str, tree: object, path: str) -> CodecError:
    actual = _NAMES.get(type(tree), type(tree).__name__)
    detail = f"It must be {wanted}, not {actual}"
    return CodecError(path=path, detail=detail)


def explain_unknown_field(name: str, owner: str, known: tuple[str, ...], path: str) -> CodecError:
    """Return an error about an unknown field, with the known ones."""
    return CodecError(
        path=f"{path}.{name}",
        detail=f"Unknown field {name!r} of {owner}{_suggest(name, known)}",
        known=known,
        remedy="If the name is correct, a newer vibe-llms wrote it: upgrade to read it.",
    )


def explain_unknown_word(word: object, known: tuple[str, ...], path: str) -> CodecError:
    """Return an error about an unknown name, with the known ones."""
    detail = f"Unknown value {word!r}{_suggest(word, known)}"
    return CodecError(path=path, detail=detail, known=known)


def _suggest(word: object, known: tuple[str, ...]) -> str:
    near = find_near(word, known)
    return f"; did you mean {near[0]!r}?" if near else ""
