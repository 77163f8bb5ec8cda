"""The public, detailed converter: slow, exact about what is wrong, and equal to the hot path."""

from __future__ import annotations

import enum
import functools
import typing
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import attrs
import cattrs
import msgspec
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from vibe_llms.exceptions import CodecError
from vibe_llms.messages.canisters import CANISTER_CLASSES, AnyCanister
from vibe_llms.messages.codec.canonical import canonicalize
from vibe_llms.messages.codec.explanations import explain, explain_unknown_word
from vibe_llms.messages.codec.identification import identify
from vibe_llms.messages.codec.mirrors import (
    IDENTIFIED_CLASSES,
    ORDERED_FIELDS,
    REQUIRED_FIELDS,
    TAGS,
)
from vibe_llms.messages.contents import CONTENT_CLASSES, AnyContent
from vibe_llms.messages.identities import ensure_utc


@functools.cache
def produce_converter() -> cattrs.Converter:
    """Produces the converter between our classes and what JSON can say.

    It takes nothing for something else (no ``1`` for ``true``, no text for a list), drops no
    unknown field, and collects every mistake with its place. One is enough for a process.
    """
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    converter.register_structure_hook_factory(attrs.has, _produce_class_hook)
    converter.register_unstructure_hook_factory(attrs.has, _produce_unstructure_hook)
    for kind in (str, int, bool):
        converter.register_structure_hook(kind, _structure_plain)
    converter.register_structure_hook(float, _structure_number)
    converter.register_unstructure_hook(float, canonicalize)
    converter.register_structure_hook(datetime, _structure_moment)
    converter.register_structure_hook(bytes, _structure_text)
    for written in (datetime, bytes):
        converter.register_unstructure_hook(written, msgspec.to_builtins)
    converter.register_structure_hook_func(_is_literal, _structure_literal)
    converter.register_structure_hook_factory(_is_tuple, _produce_tuple_hook)
    converter.register_unstructure_hook_factory(_is_tuple, _produce_list_hook)
    converter.register_structure_hook_func(_is_mapping, _structure_mapping)
    converter.register_unstructure_hook_func(_is_mapping, canonicalize)
    for union, key, classes in (
        (AnyContent, "type", CONTENT_CLASSES),
        (AnyCanister, "role", CANISTER_CLASSES),
    ):
        hook = _produce_union_hook(converter, key, typing.cast(Mapping[str, type], classes))
        converter.register_structure_hook(union, hook)
        converter.register_unstructure_hook(union, converter.unstructure)
    return converter


def structure(data: bytes | str, kind: Any, *, place: str = "") -> Any:
    """Reads one JSON document in detail.

    Args:
        data: The document.
        kind: The class or union to read it as.
        place: What to put before the path in an error, such as ``line 3:``.

    Raises:
        CodecError: It does not read as that.
    """
    try:
        tree = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CodecError(path=f"{place}$", detail=f"This is not JSON: {error}") from error
    return structure_tree(tree, kind, place=place)


def structure_tree(tree: object, kind: Any, *, place: str = "", path: str = "$") -> Any:
    """Reads plain data in detail; otherwise like :func:`structure`."""
    try:
        return produce_converter().structure(tree, kind)
    except Exception as error:
        raise explain(error, place + path) from error


def _produce_class_hook(
    cls: type, converter: cattrs.Converter
) -> Callable[[object, object], object]:
    inner: Callable[[Any, Any], Any] = make_dict_structure_fn(
        cls, converter, _cattrs_forbid_extra_keys=True
    )
    key, word = TAGS.get(cls, ("", ""))
    required = REQUIRED_FIELDS & {field.name for field in attrs.fields(cls)}

    def hook(value: object, _: object) -> object:
        members = _ensure_object(value)
        if key:
            if members.get(key) != word:
                raise explain_unknown_word(members.get(key), (word,), f"$.{key}")
            members = {name: value for name, value in members.items() if name != key}
        for name in required - members.keys():
            raise CodecError(path=f"$.{name}", detail=f"The field {name!r} is missing")
        if cls in IDENTIFIED_CLASSES and "id" not in members:
            return identify(typing.cast(AnyCanister, inner({**members, "id": ""}, cls)))
        return inner(members, cls)

    return hook


def _produce_unstructure_hook(
    cls: type, converter: cattrs.Converter
) -> Callable[[Any], dict[str, Any]]:
    ordered = ORDERED_FIELDS & {field.name for field in attrs.fields(cls)}
    keep = override(unstruct_hook=functools.partial(canonicalize, keeps_order=True))
    settings: dict[str, Any] = dict.fromkeys(ordered, keep)
    return make_dict_unstructure_fn(cls, converter, _cattrs_include_init_false=True, **settings)


def _produce_union_hook(
    converter: cattrs.Converter, key: str, classes: Mapping[str, type]
) -> Callable[[object, object], object]:
    def hook(value: object, _: object) -> object:
        word = _ensure_object(value).get(key)
        if word is None:
            raise CodecError(
                path=f"$.{key}", detail=f"The field {key!r} is missing", known=tuple(classes)
            )
        cls = classes.get(word) if isinstance(word, str) else None
        if cls is None:
            raise explain_unknown_word(word, tuple(classes), f"$.{key}")
        return converter.structure(value, cls)

    return hook


def _produce_tuple_hook(
    kind: Any, converter: cattrs.Converter
) -> Callable[[object, object], tuple[Any, ...]]:
    members: Any = list[typing.get_args(kind)[0]]  # type: ignore[misc]
    inner = converter.get_structure_hook(members)

    def hook(value: object, _: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise CodecError(detail=f"A list is needed, not {_name(value)}")
        return tuple(inner(value, members))

    return hook


def _produce_list_hook(kind: Any, converter: cattrs.Converter) -> Callable[[Any], list[Any]]:
    inner = converter.get_unstructure_hook(typing.get_args(kind)[0])
    return lambda value: [inner(member) for member in value]


def _ensure_object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CodecError(detail=f"An object is needed, not {_name(value)}")
    return value


def _structure_plain(value: Any, kind: type) -> Any:
    # cattrs takes an enumeration of texts for a text
    return (
        _structure_word(value, kind) if issubclass(kind, enum.Enum) else _ensure_plain(value, kind)
    )


def _ensure_plain(value: Any, kind: type) -> Any:
    if value.__class__ is not kind:
        raise CodecError(detail=f"{_NAMES[kind].capitalize()} is needed, not {_name(value)}")
    return value


def _structure_number(value: Any, _: object) -> float:
    if value.__class__ not in (int, float):
        raise CodecError(detail=f"A number is needed, not {_name(value)}")
    return float(value)


def _structure_text(value: Any, kind: Any) -> Any:
    _ensure_plain(value, str)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise CodecError(detail=f"{error}") from error


def _structure_moment(value: Any, kind: Any) -> datetime:
    return ensure_utc(_structure_text(value, kind))


def _structure_word(value: Any, kind: type[enum.Enum]) -> enum.Enum:
    known = tuple(str(member.value) for member in kind)
    if not isinstance(value, str) or value not in known:
        raise explain_unknown_word(value, known, "$")
    return kind(value)


def _structure_literal(value: Any, kind: Any) -> Any:
    known = typing.get_args(kind)
    if not isinstance(value, str) or value not in known:
        raise explain_unknown_word(value, known, "$")
    return value


def _structure_mapping(value: object, _: object) -> dict[str, Any]:
    return dict(_ensure_object(value))


def _is_literal(kind: Any) -> bool:
    return typing.get_origin(kind) is typing.Literal


def _is_tuple(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple


def _is_mapping(kind: Any) -> bool:
    return (typing.get_origin(kind) or kind) in (Mapping, dict)


_NAMES: Mapping[type, str] = {
    str: "a text",
    int: "an integer",
    bool: "true or false",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _name(value: object) -> str:
    return _NAMES.get(type(value), type(value).__name__)
