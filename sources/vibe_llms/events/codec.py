"""Events as JSON, and back: for logs, other processes and streams over HTTP. Not a hot path,
but for reading the log of a conversation with many runs."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast, get_args

import cattrs
import msgspec
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from vibe_llms.events.conversation import ConversationEvent
from vibe_llms.events.engine import EngineEvent
from vibe_llms.events.stream import FinishedItem, StreamEvent
from vibe_llms.exceptions import CodecError, ConverseError
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.codec import (
    decode_error,
    encode_document,
    encode_error,
    produce_converter,
)
from vibe_llms.messages.codec.explanations import explain
from vibe_llms.messages.codec.lines import REFUSALS
from vibe_llms.messages.codec.mirrors import access_mirror
from vibe_llms.messages.contents import AnyContent

AnyEvent: TypeAlias = ConversationEvent | StreamEvent | EngineEvent

EVENT_CLASSES: dict[str, type[AnyEvent]] = {
    cast(Any, cls).__attrs_attrs__.type.default: cls for cls in get_args(AnyEvent)
}
"""From the stable word of each kind of event to its class."""


def encode_event(event: AnyEvent) -> bytes:
    """Returns the event as one JSON document, its stable word first.

    Raises:
        CodecError: The event holds something that JSON cannot say.
    """
    return encode_document(_produce_converter().unstructure(event))


def decode_event(data: bytes | str) -> AnyEvent:
    """Reads an event.

    Raises:
        CodecError: It is none; names the place and the known words.
    """
    decoder, builders = _access_reading()
    try:
        mirror = decoder.decode(data)
        return builders[mirror.__class__](mirror)
    except REFUSALS:  # of another kind, or none: the slow way reads all, and says what is wrong
        return _decode_in_detail(data)


@functools.cache
def _access_reading() -> tuple[Any, dict[type, Callable[[Any], AnyEvent]]]:
    """Returns what reads those events fast of which a run's log has many."""
    plain = [cls for cls in get_args(EngineEvent) if "error" not in cls.__annotations__]
    mirrors = [access_mirror(cls, ("type", cls.__attrs_attrs__.type.default)) for cls in plain]
    union = functools.reduce(operator.or_, (mirror.struct for mirror in mirrors))
    return msgspec.json.Decoder(union), {mirror.struct: mirror.build for mirror in mirrors}


def _decode_in_detail(data: bytes | str) -> AnyEvent:
    try:
        return cast(AnyEvent, _structure_event(msgspec.json.decode(data), AnyEvent))
    except msgspec.MsgspecError as error:
        raise CodecError(detail=f"This is not JSON: {error}") from error
    except Exception as error:
        raise explain(error, "$") from error


@functools.cache
def _produce_converter() -> cattrs.Converter:
    converter = produce_converter().copy()
    converter.register_structure_hook_func(
        _is_error, lambda tree, _: decode_error(json.dumps(tree))
    )
    converter.register_unstructure_hook_func(
        _is_error, lambda error: json.loads(encode_error(error))
    )
    converter.register_structure_hook(FinishedItem, _structure_item)
    converter.register_unstructure_hook(FinishedItem, converter.unstructure)
    for cls in EVENT_CLASSES.values():
        converter.register_structure_hook(cls, _produce_hook(cls, converter))
        converter.register_unstructure_hook(
            cls, make_dict_unstructure_fn(cls, converter, _cattrs_include_init_false=True)
        )
    for union in (StreamEvent, ConversationEvent, EngineEvent):
        converter.register_structure_hook(union, _structure_event)
        converter.register_unstructure_hook(union, converter.unstructure)
    return converter


def _produce_hook(cls: type[AnyEvent], converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
    inner: Callable[[Any, Any], Any] = make_dict_structure_fn(
        cast(type[Any], cls), converter, _cattrs_forbid_extra_keys=True
    )

    def hook(tree: Mapping[str, Any], _: object) -> Any:
        return inner({name: value for name, value in tree.items() if name != "type"}, cls)

    return hook


def _structure_event(tree: Any, _: object) -> Any:
    word = tree.get("type") if isinstance(tree, Mapping) else None
    cls = EVENT_CLASSES.get(word) if isinstance(word, str) else None
    if cls is None:
        raise CodecError(
            path="$.type", detail=f"{word!r} is no kind of event", known=tuple(EVENT_CLASSES)
        )
    return _produce_converter().structure(tree, cls)


def _structure_item(tree: Any, _: object) -> Any:
    if tree is None:
        return None
    union: Any = AnyCanister if "role" in tree else AnyContent
    return _produce_converter().structure(tree, union)


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, ConverseError)
