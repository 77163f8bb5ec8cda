"""Events as JSON, and back: for logs, other processes and streams over HTTP. Not a hot path,
except for reading the log of a conversation with many runs.
"""

from __future__ import annotations

import functools
import json
from typing import Any, TypeAlias, cast, get_args

import cattrs

from vibe_llms.events.conversation import ConversationEvent
from vibe_llms.events.engine import EngineEvent
from vibe_llms.events.flow import FlowEvent, LogEvent
from vibe_llms.events.runs import OutsideEvent
from vibe_llms.events.stream import FinishedItem, StreamEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.codec.canonical import encode_document
from vibe_llms.messages.codec.converter import produce_converter
from vibe_llms.messages.codec.decoding import read_json, read_tree
from vibe_llms.messages.codec.errors import encode_error
from vibe_llms.messages.codec.mirrors import REFUSALS, Mirror, access_mirror, register_mirror
from vibe_llms.messages.contents import AnyContent

AnyEvent: TypeAlias = ConversationEvent | StreamEvent | EngineEvent | FlowEvent | OutsideEvent

EVENT_CLASSES: dict[str, type[AnyEvent]] = {
    cast(Any, cls).__attrs_attrs__.type.default: cls for cls in get_args(AnyEvent)
}
"""Class of each kind of event."""


def encode_event(event: AnyEvent) -> bytes:
    """Return the event as one JSON document, its kind first.

    Raises:
        CodecError: JSON cannot represent a value of the event.
    """
    return encode_document(_produce_converter().unstructure(event))


def decode_event(data: bytes | str) -> AnyEvent:
    """Decode an event.

    Raises:
        CodecError: The event is invalid; the error has the path and the known kinds.
    """
    mirror = access_mirror(LogEvent)
    try:  # the log of a run has many of these
        event: AnyEvent = mirror.build(mirror.decoder.decode(data))
    except REFUSALS:
        event = read_json(data, AnyEvent)
    return event


def _read_item(tree: dict[str, Any]) -> Any:
    union: Any = AnyCanister if "role" in tree else AnyContent
    return read_tree(tree, union)


# Canisters have a role, contents a type: msgspec does not support a union of both.
register_mirror(lambda kind: kind == FinishedItem, Mirror(dict[str, Any] | None, _read_item))


@functools.cache
def _produce_converter() -> cattrs.Converter:
    # A copy: these hooks are for events and must not affect messages.
    converter = produce_converter().copy()
    converter.register_unstructure_hook_func(
        _is_error, lambda error: json.loads(encode_error(error))
    )
    for union in (
        FinishedItem,
        StreamEvent,
        ConversationEvent,
        EngineEvent,
        FlowEvent,
        OutsideEvent,
    ):
        converter.register_unstructure_hook(union, converter.unstructure)
    return converter


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, ConverseError)
