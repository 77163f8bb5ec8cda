"""The public cattrs converter: it validates as the codec does, and writes plain data."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import attrs
import cattrs
import msgspec
from cattrs.gen import make_dict_unstructure_fn, override

from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.codec.canonical import canonicalize
from vibe_llms.messages.codec.decoding import read_tree
from vibe_llms.messages.codec.mirrors import OMITTED_FIELDS, ORDERED_FIELDS
from vibe_llms.messages.contents import AnyContent


@functools.cache
def produce_converter() -> cattrs.Converter:
    """Make the converter between our classes and plain JSON data.

    It coerces nothing (no ``1`` for ``true``, no text for a list), rejects unknown fields, and
    raises a CodecError with the path of the first error. One converter is enough for a process.
    """
    converter = cattrs.Converter()
    converter.register_structure_hook_func(lambda _: True, read_tree)
    converter.register_unstructure_hook_factory(attrs.has, _produce_hook)
    converter.register_unstructure_hook(float, canonicalize)
    for encoded_class in (datetime, bytes):
        converter.register_unstructure_hook(encoded_class, msgspec.to_builtins)
    converter.register_unstructure_hook_factory(_is_tuple, _produce_list_hook)
    converter.register_unstructure_hook_func(_is_mapping, canonicalize)
    for union in (AnyContent, AnyCanister):
        converter.register_unstructure_hook(union, converter.unstructure)
    return converter


def _produce_hook(cls: type, converter: cattrs.Converter) -> Callable[[Any], dict[str, Any]]:
    ordered_fields = ORDERED_FIELDS & {field.name for field in attrs.fields(cls)}
    keep_order = override(unstruct_hook=functools.partial(canonicalize, keeps_order=True))
    overrides: dict[str, Any] = dict.fromkeys(ordered_fields, keep_order)
    omitted_fields = OMITTED_FIELDS & {field.name for field in attrs.fields(cls)}
    overrides |= dict.fromkeys(omitted_fields, override(omit_if_default=True))
    # The type names that tell the classes apart are fields without a constructor argument.
    return make_dict_unstructure_fn(cls, converter, _cattrs_include_init_false=True, **overrides)


def _produce_list_hook(kind: Any, converter: cattrs.Converter) -> Callable[[Any], list[Any]]:
    unstructure = converter.get_unstructure_hook(typing.get_args(kind)[0])
    return lambda value: [unstructure(member) for member in value]


def _is_tuple(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple


def _is_mapping(kind: Any) -> bool:
    return (typing.get_origin(kind) or kind) in (Mapping, dict)
