"""Lowering of custom tools, which take free text, to functions for vendors that only support those.

A custom tool is sent as a function with one text argument; calls of the function are returned as
free text. The request shows which functions these are, so no state is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.extras import write_json
from vibe_llms.dialects.free_text import split_format
from vibe_llms.dialects.invocations import is_vendors_own
from vibe_llms.dialects.processors import Decoder
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    StreamEvent,
)
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import InvocationCanister, Owner
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.requests import Request
from vibe_llms.providers.wrapped_text import FIELD, WrappedText, unwrap

_PROTOCOLS_WITH_CUSTOM_TOOLS: Final = frozenset({"chat_completions", "converse", "responses"})
"""Protocols with custom tools."""

SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {FIELD: {"type": "string", "description": "The whole text, as it is."}},
    "required": [FIELD],
    "additionalProperties": False,
}
"""The arguments of a function that stands for a custom tool."""

_SYNTAXES: Final = {"lark": "Lark grammar", "regex": "regular expression"}


def find_lowered(request: Request, protocol: str, quirks: Any = None) -> frozenset[str]:
    """Return the names of the custom tools that must be sent to the vendor as functions.

    Args:
        protocol: The vendor's protocol.
        quirks: The vendor's quirks; ``takes_custom`` overrides the protocol.

    Raises:
        RequestError: The native of an invocable is invalid.
    """
    if all(each.schema is not None for each in request.invocables):  # no custom tools, as usual
        return frozenset()
    has_custom = protocol in _PROTOCOLS_WITH_CUSTOM_TOOLS and getattr(quirks, "takes_custom", True)
    if has_custom or not getattr(quirks, "takes_tools", True):
        return frozenset()
    return frozenset(
        each.name for each in request.invocables if each.schema is None and not is_vendors_own(each)
    )


def lower(request: Request, names: Collection[str]) -> Translation[Request]:
    """Replace the custom tools with these names, and earlier calls of these tools, by functions."""
    if not names:
        return Translation(request)
    losses: list[Loss] = []
    invocables = []
    for index, each in enumerate(request.invocables):
        if each.name in names and each.schema is None:
            path = f"invocables[{index}]"
            reason = (
                f"{each.name} takes free text; it is sent as a function with the text {FIELD!r}"
            )
            losses.append(Loss(kind=LossKind.COERCED, path=path, reason=reason))
            invocables.append(_lower(each, path))
        else:
            invocables.append(each)
    canisters = [
        _lower_call(each) if isinstance(each, InvocationCanister) and each.name in names else each
        for each in request.canisters
    ]
    return Translation(attrs.evolve(request, invocables=invocables, canisters=canisters), losses)


def _lower_call(call: InvocationCanister) -> InvocationCanister:
    if call.form != "text" or call.owner is not Owner.OURS:
        return call
    return attrs.evolve(call, form="json", arguments=write_json({FIELD: call.arguments}))


def _lower(invocable: InvocableDescription, path: str) -> InvocableDescription:
    text_format, native = split_format(invocable.native, path)
    sentences = [
        f"Call it as a function: put the whole text into the argument {FIELD!r}, "
        "even where the description asks for no JSON."
    ]
    if text_format is not None and text_format["type"] == "grammar":
        syntax = _SYNTAXES.get(str(text_format["syntax"]), f"{text_format['syntax']} grammar")
        sentences.append(f"The text must match this {syntax}:\n\n{text_format['definition']}")
    if original := invocable.description.rstrip():
        sentences.insert(0, original)
    description = "\n\n".join(sentences)
    return attrs.evolve(invocable, description=description, schema=SCHEMA, native=native)


class CustomCalls:
    """Converts the calls of lowered tools back to free text, in the events of one answer.

    Args:
        names: The names of the lowered tools.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._texts: dict[int, WrappedText] = {}

    def restore(self, events: Sequence[StreamEvent]) -> list[StreamEvent]:
        """Return the events with free text where a custom tool is called."""
        restored: list[StreamEvent] = []
        for event in events:
            restored += self._restore(event)
        return restored

    def _restore(self, event: StreamEvent) -> Sequence[StreamEvent]:
        match event:
            case ContentStartedEvent() if self._is_ours(event):
                self._texts[event.index] = WrappedText()
                return (attrs.evolve(event, form="text"),)
            case ContentDeltaEvent(channel="arguments") if event.index in self._texts:
                text = self._texts[event.index].feed(event.text)
                return (ContentDeltaEvent(event.index, text, "arguments"),) if text else ()
            case ContentFinishedEvent() if event.index in self._texts:
                return self._finish(event, self._texts.pop(event.index))
        return (event,)

    def _is_ours(self, start: ContentStartedEvent) -> bool:
        is_call = start.kind == "invocation" and start.owner is Owner.OURS
        return is_call and start.name in self._names

    def _finish(self, event: ContentFinishedEvent, text: WrappedText) -> Sequence[StreamEvent]:
        last_deltas: list[StreamEvent] = []
        if rest := text.finish():
            last_deltas.append(ContentDeltaEvent(event.index, rest, "arguments"))
        if isinstance(event.item, InvocationCanister):
            complete_text = text.text if text.is_begun else unwrap(event.item.arguments)
            item = attrs.evolve(event.item, form="text", arguments=complete_text)
            event = attrs.evolve(event, item=item)
        return (*last_deltas, event)


class LoweringDecoder:
    """A decoder that returns calls of lowered tools as free text.

    Args:
        decoder: The decoder of the vendor's answer.
        names: The names of the lowered tools.
    """

    def __init__(self, decoder: Decoder, names: Collection[str]) -> None:
        self._decoder = decoder
        self._calls = CustomCalls(names)

    def __getattr__(self, name: str) -> Any:  # optional attributes of decoders
        return getattr(self._decoder, name)

    def decode(self, data: bytes, event: str = "") -> list[StreamEvent]:
        """Return the events of one frame. Raises ConverseError."""
        return self._calls.restore(self._decoder.decode(data, event))

    def decode_response(self, body: bytes) -> list[StreamEvent]:
        """Return all events of a whole response. Raises ConverseError."""
        return self._calls.restore(self._decoder.decode_response(body))

    def finish(self) -> list[StreamEvent]:
        """Return the last events. Raises StreamTruncatedError if the vendor's response is
        incomplete.
        """
        return self._calls.restore(self._decoder.finish())
