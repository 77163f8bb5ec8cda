"""Mirrors: one msgspec struct for each of our classes, and a compiled way from it to ours.

msgspec reads fastest into structs of its own. So each class has a mirror with the same fields,
derived from ``attrs.fields``, and a builder: a function, compiled once, that does what the
class's own constructor does (converters, what comes after), less the keyword call, which costs
as much again as all else. The tests hold it equal to the constructor, field by field.
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
from vibe_llms.messages.conformity import CONFORMS
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

ORDERED_FIELDS = frozenset({"schema"})
"""Fields of plain data in which the order of keys is part of what is said."""


@attrs.frozen
class Mirror:
    """The struct to read into, and the function that makes ours of it."""

    struct: type[msgspec.Struct]
    build: Callable[[Any], Any]


@functools.cache
def access_mirror(cls: type, tags: tuple[str, str] | None = None) -> Mirror:
    """Returns the mirror of one of our classes; made when it is first asked for.

    Args:
        tags: The field and the word that tell the class in a union which is not in ``TAGS``.
    """
    hints = typing.get_type_hints(cls)
    fields = list(attrs.fields(cls))
    tag_field, tag = tags or TAGS.get(cls) or (None, None)
    struct = msgspec.defstruct(
        cls.__name__,
        [_derive_field(cls, field, hints[field.name]) for field in fields if field.init],
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
    names: dict[str, Any] = {
        "cls": cls,
        "new": object.__new__,
        "identify": identify,
        "UNSET": msgspec.UNSET,
    }
    values = {
        field.name: _express_field(field, hints[field.name], names)
        if field.init
        else repr(field.default)
        for field in fields
    }
    identified = cls in IDENTIFIED_CLASSES
    if "__slots__" in cls.__dict__ or any(field.validator for field in fields):
        arguments = ", ".join(f"{field.alias}={values[field.name]}" for field in fields)
        lines = ["def build(mirror):", f"    return cls({arguments})"]
    else:
        lines = ["def build(mirror):", "    value = new(cls)", "    members = value.__dict__"]
        lines += [f"    members[{name!r}] = {text}" for name, text in values.items()]
        if hasattr(cls, "__attrs_post_init__"):
            lines.append("    value.__attrs_post_init__()")
        missing = "identify(value) if mirror.id is UNSET else " if identified else ""
        lines.append(f"    return {missing}value")
    exec("\n".join(lines), names)
    return typing.cast(Callable[[Any], Any], names["build"])


def _express_field(field: attrs.Attribute[Any], hint: Any, names: dict[str, Any]) -> str:
    """Writes the expression of a field's final value, through its converter where it has one."""
    text = _express(f"mirror.{field.name}", hint, names)
    if field.converter is None or CONFORMS in field.metadata or typing.get_origin(hint) is tuple:
        return text  # msgspec has seen to the types; a caller may give more than it does
    names[f"convert_{field.name}"] = field.converter
    return f"convert_{field.name}({text})"


def _express(source: str, hint: Any, names: dict[str, Any]) -> str:
    """Writes the expression that makes ours of one field of a mirror."""
    if typing.get_origin(hint) is tuple:
        classes = _survey_classes(typing.get_args(hint)[0])
        if not classes:
            return source
        return f"tuple([{_express_build('each', classes, names)} for each in {source}])"
    classes = _survey_classes(hint)
    if not classes:
        return source
    build = _express_build(source, classes, names)
    return f"None if {source} is None else {build}" if _is_union(hint) else build


def _survey_classes(hint: Any) -> list[type]:
    """Returns the classes of ours which an annotation admits."""
    kinds = typing.get_args(hint) if _is_union(hint) else (hint,)
    return [kind for kind in kinds if isinstance(kind, type) and attrs.has(kind)]


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
