"""Mirrors: one msgspec struct for each of our classes, and a compiled way from it to ours.

msgspec reads fastest into structs of its own. So each class has a mirror with the same fields,
derived from ``attrs.fields``, and a builder: a function, compiled once, that hands the mirror's
fields to the class's own constructor. Constructors stay the only way in; no rule is bypassed.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import msgspec

from vibe_llms.messages.canisters import CANISTER_CLASSES
from vibe_llms.messages.codec.identification import identify
from vibe_llms.messages.contents import CONTENT_CLASSES

TAGS: Mapping[type, tuple[str, str]] = {
    **{cls: ("role", word) for word, cls in CANISTER_CLASSES.items()},
    **{cls: ("type", word) for word, cls in CONTENT_CLASSES.items()},
}
"""The field and the word that tell a class, of those that stand in unions."""

REQUIRED_FIELDS = frozenset({"timestamp"})
"""Fields with a default that reading may not take: the same line must read alike twice."""

IDENTIFIED_CLASSES = frozenset(CANISTER_CLASSES.values())
"""Classes whose missing ``id`` is derived from what they hold."""


@attrs.frozen
class Mirror:
    """The struct to read into, and the function that makes ours of it."""

    struct: type[msgspec.Struct]
    build: Callable[[Any], Any]


@functools.cache
def access_mirror(cls: type) -> Mirror:
    """Returns the mirror of one of our classes; made when it is first asked for."""
    hints = typing.get_type_hints(cls)
    fields = [field for field in attrs.fields(cls) if field.init]
    tag_field, tag = TAGS.get(cls, (None, None))
    struct = msgspec.defstruct(
        cls.__name__,
        [_derive_field(cls, field, hints[field.name]) for field in fields],
        tag_field=tag_field,
        tag=tag,
        kw_only=True,
        forbid_unknown_fields=True,
        gc=False,
    )
    return Mirror(struct, _compile_builder(cls, fields, hints))


def reflect_type(hint: Any) -> Any:
    """Returns a type annotation with each of our classes replaced by its mirror's struct."""
    if isinstance(hint, type) and attrs.has(hint):
        return access_mirror(hint).struct
    if _is_union(hint):
        return functools.reduce(
            lambda left, right: left | right, map(reflect_type, typing.get_args(hint))
        )
    if typing.get_origin(hint) is tuple:
        return tuple[reflect_type(typing.get_args(hint)[0]), ...]  # type: ignore[misc]
    return hint


def _derive_field(cls: type, field: attrs.Attribute[Any], hint: Any) -> tuple[Any, ...]:
    kind = reflect_type(hint)
    if field.default is attrs.NOTHING or field.name in REQUIRED_FIELDS:
        return (field.name, kind)
    if field.name == "id" and cls in IDENTIFIED_CLASSES:
        return (field.name, kind | msgspec.UnsetType, msgspec.UNSET)
    factory = getattr(field.default, "factory", None)
    default = field.default if factory is None else msgspec.field(default_factory=factory)
    return (field.name, kind, default)


def _compile_builder(
    cls: type, fields: list[attrs.Attribute[Any]], hints: Mapping[str, Any]
) -> Callable[[Any], Any]:
    names: dict[str, Any] = {"cls": cls, "identify": identify, "UNSET": msgspec.UNSET}
    arguments = []
    for field in sorted(fields, key=lambda field: field.kw_only):
        value = _express(f"mirror.{field.name}", hints[field.name], names)
        arguments.append(f"{field.alias}={value}" if field.kw_only else value)
    lines = ["def build(mirror):"]
    if cls in IDENTIFIED_CLASSES:
        unnamed = ", ".join('id=""' if text == "id=mirror.id" else text for text in arguments)
        lines += ["    if mirror.id is UNSET:", f"        return identify(cls({unnamed}))"]
    lines.append(f"    return cls({', '.join(arguments)})")
    exec("\n".join(lines), names)
    return typing.cast(Callable[[Any], Any], names["build"])


def _express(source: str, hint: Any, names: dict[str, Any]) -> str:
    """Writes the expression that makes ours of one field of a mirror."""
    classes = [
        cls
        for cls in (typing.get_args(hint) if _is_union(hint) else (hint,))
        if isinstance(cls, type) and attrs.has(cls)
    ]
    if classes:
        return f"None if {source} is None else {_express_build(source, classes, names)}"
    if typing.get_origin(hint) is tuple:
        (member, _) = typing.get_args(hint)
        each = _express("each", member, names)
        if each == "each":
            return source
        return f"tuple([{each.removeprefix('None if each is None else ')} for each in {source}])"
    return source


def _express_build(source: str, classes: list[type], names: dict[str, Any]) -> str:
    mirrors = [access_mirror(cls) for cls in classes]
    if len(mirrors) == 1:
        name = f"build_{classes[0].__name__}"
        names[name] = mirrors[0].build
        return f"{name}({source})"
    name = f"builders_of_{classes[0].__name__}_and_others"
    names[name] = {mirror.struct: mirror.build for mirror in mirrors}
    return f"{name}[{source}.__class__]({source})"


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)
