"""Mirrors: one msgspec struct for each of our classes, and a compiled builder.

msgspec decodes fastest into structs of its own. So each class has a mirror with the same fields,
derived from ``attrs.fields``, and a builder: a function, compiled once, that does the same as the
class's constructor (converters, ``__attrs_post_init__``), but without the keyword call, which
takes as long as the rest. Tests check that both give equal values, field by field.
"""

from __future__ import annotations

import functools
import threading
import types
import typing
from base64 import b32encode
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs
import msgspec

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.slotted_classes import find_draft
from vibe_llms.messages.canisters import CANISTER_CLASSES, AnyCanister
from vibe_llms.messages.field_types import CONFORMS

_Canister = TypeVar("_Canister", bound=AnyCanister)


def derive_id(canister: _Canister) -> _Canister:
    """Derive the id of a canister from its data, so that decoding it twice gives the same id.

    Args:
        canister: The canister; its present id is ignored.
    """
    import hashlib  # few lines lack an id

    without_id = attrs.evolve(canister, id="")
    digest = hashlib.sha256(msgspec.json.encode(without_id)).digest()
    return attrs.evolve(canister, id=b32encode(digest[:10]).decode("ascii").lower())


REFUSALS = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""Exceptions of decoding into a mirror and building from it, including RequestError."""

REQUIRED_FIELDS = frozenset({"timestamp"})
"""Fields without their default when decoding: decoding a line twice must give equal values."""

IDENTIFIED_CLASSES = frozenset(CANISTER_CLASSES.values())
"""Classes whose missing ``id`` is derived from their data."""

OMITTED_FIELDS = frozenset({"cache", "server_tool", "summarizes"})
"""Fields that are written only if they have a value; earlier versions did not have them."""

ORDERED_FIELDS = frozenset({"schema"})
"""Fields of plain data in which the order of keys has a meaning."""


@frozen
class Mirror:
    """A msgspec struct, and the function that makes our value from it."""

    struct: Any
    build: Callable[[Any], Any]

    @functools.cached_property
    def decoder(self) -> msgspec.json.Decoder[Any]:
        """Decoder from JSON to the struct."""
        return msgspec.json.Decoder(self.struct)

    def convert(self, tree: object) -> Any:
        """Decode plain data. Raises as msgspec and our classes do."""
        return self.build(msgspec.convert({"value": tree}, self._box).value)

    @functools.cached_property
    def _box(self) -> Any:
        # msgspec analyses a struct once, but a union at each call.
        return _resolve(msgspec.defstruct("Box", [("value", self.struct)]))


def _resolve(struct: type) -> type:
    """Make msgspec analyse a struct before another thread uses it.

    Otherwise it does so at the first use, and two threads that do so at once crash it.
    """
    msgspec.json.Decoder(struct)
    return struct


_REGISTERED: list[tuple[Callable[[Any], bool], Mirror]] = []


def register_mirror(is_responsible: Callable[[Any], bool], mirror: Mirror) -> None:
    """Register the decoding of values that a mirror cannot be derived for, such as errors.

    Args:
        is_responsible: Returns true for an annotation whose values this mirror decodes.
    """
    _REGISTERED.append((is_responsible, mirror))


def find_registered(hint: Any) -> Mirror | None:
    """Return the mirror registered for an annotation, or ``None``."""
    return next((mirror for is_responsible, mirror in _REGISTERED if is_responsible(hint)), None)


_MAKE_LOCK = threading.RLock()


@functools.cache
def access_mirror(kind: Any) -> Mirror:
    """Return the mirror of one of our classes or of another annotation.

    It is made at the first call.
    """
    # Two threads at once would make two mirrors, which reject each other's structs.
    with _MAKE_LOCK:
        return _make_mirror(kind)


@functools.cache
def _make_mirror(kind: Any) -> Mirror:
    if not attrs.has(kind):
        namespace: dict[str, Any] = {}
        expression = _generate_value("mirror", kind, namespace)
        exec(f"def build(mirror): return {expression}", namespace)
        return Mirror(reflect_type(kind), namespace["build"])
    cls: type = kind
    hints = typing.get_type_hints(cls)
    fields = list(attrs.fields(cls))
    tag_field, tag = find_tag(cls)
    struct = msgspec.defstruct(
        cls.__name__,
        [_derive_field(cls, field, hints[field.name]) for field in fields if field.init],
        tag_field=tag_field,
        tag=tag,
        kw_only=True,
        forbid_unknown_fields=True,
        # Without garbage collection: structs exist only until our values are made.
        gc=False,
    )
    return Mirror(_resolve(struct), _compile_builder(cls, fields, hints))


def find_tag(cls: Any) -> tuple[str | None, str | None]:
    """Return the tag field of a class, ``role`` or ``type``, and its value."""
    tags = (
        (field.name, field.default)
        for field in attrs.fields(cls)
        if field.name in ("role", "type") and not field.init
    )
    return next(tags, (None, None))


def reflect_type(hint: Any) -> Any:
    """Return a type annotation with each of our classes replaced by its mirror's struct."""
    if registered := find_registered(hint):
        return registered.struct
    if isinstance(hint, type) and attrs.has(hint):
        return access_mirror(hint).struct
    if is_union(hint):
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
    namespace: dict[str, Any] = {
        "cls": cls,
        "new": object.__new__,
        "derive_id": derive_id,
        "UNSET": msgspec.UNSET,
    }
    values = {
        field.name: _generate_field(field, hints[field.name], namespace)
        if field.init
        else repr(field.default)
        for field in fields
    }
    if any(field.validator for field in fields):  # only a constructor runs validators
        arguments = ", ".join(f"{field.alias}={values[field.name]}" for field in fields)
        lines = ["def build(mirror):", f"    return cls({arguments})"]
    else:
        if cls.__dictoffset__:
            lines = ["def build(mirror):", "    value = new(cls)", "    members = value.__dict__"]
            lines += [f"    members[{name!r}] = {text}" for name, text in values.items()]
        else:
            namespace["draft"] = find_draft(cls)
            lines = ["def build(mirror):", "    value = draft()"]
            lines += [f"    value.{name} = {text}" for name, text in values.items()]
            lines.append("    value.__class__ = cls")
        if hasattr(cls, "__attrs_post_init__"):
            lines.append("    value.__attrs_post_init__()")
        if cls in IDENTIFIED_CLASSES:
            lines.append("    return derive_id(value) if mirror.id is UNSET else value")
        else:
            lines.append("    return value")
    exec("\n".join(lines), namespace)
    return typing.cast(Callable[[Any], Any], namespace["build"])


def _generate_field(field: attrs.Attribute[Any], hint: Any, namespace: dict[str, Any]) -> str:
    """Return the source code of a field's final value, with its converter, if it has one."""
    expression = _generate_value(f"mirror.{field.name}", hint, namespace)
    if field.converter is None or CONFORMS in field.metadata or typing.get_origin(hint) is tuple:
        return expression  # msgspec has checked the types; the converter also accepts other ones
    namespace[f"convert_{field.name}"] = field.converter
    return f"convert_{field.name}({expression})"


def _generate_value(source: str, hint: Any, namespace: dict[str, Any]) -> str:
    """Return the source code that makes our value from a value of a mirror.

    Args:
        source: Source code of the mirror's value, such as ``mirror.content``.
        hint: The type annotation of our value.
        namespace: Names that the code uses; those that it needs are added.
    """
    kinds = [kind for kind in typing.get_args(hint) if kind is not types.NoneType]
    optional_kind = kinds[0] if is_union(hint) and len(kinds) == 1 else hint
    if registered := find_registered(hint) or find_registered(optional_kind):
        name = f"build_registered_{len(namespace)}"
        namespace[name] = registered.build
        return f"None if {source} is None else {name}({source})"
    if typing.get_origin(hint) is tuple:
        classes = _survey_classes(typing.get_args(hint)[0])
        if not classes:
            return source
        return f"tuple([{_generate_build('each', classes, namespace)} for each in {source}])"
    classes = _survey_classes(hint)
    if not classes:
        return source
    build = _generate_build(source, classes, namespace)
    return f"None if {source} is None else {build}" if is_union(hint) else build


def _survey_classes(hint: Any) -> list[type]:
    """Return our classes in an annotation."""
    kinds = typing.get_args(hint) if is_union(hint) else (hint,)
    return [kind for kind in kinds if isinstance(kind, type) and attrs.has(kind)]


def _generate_build(source: str, classes: list[type], namespace: dict[str, Any]) -> str:
    """Return the source code that calls the builder of a struct's class."""
    mirrors = [access_mirror(cls) for cls in classes]
    if len(mirrors) == 1:
        name = f"build_{classes[0].__name__}"
        namespace[name] = mirrors[0].build
        return f"{name}({source})"
    name = f"builders_of_{classes[0].__name__}_and_others"
    namespace[name] = {mirror.struct: mirror.build for mirror in mirrors}
    return f"{name}[{source}.__class__]({source})"


def is_union(hint: Any) -> bool:
    """Return whether an annotation allows several kinds."""
    return typing.get_origin(hint) in (typing.Union, types.UnionType)
