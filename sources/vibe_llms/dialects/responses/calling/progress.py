"""The items of a response while they are streamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.extras import collect_extras, make_native
from vibe_llms.dialects.responses.calling.audio import ResponseAudio
from vibe_llms.dialects.responses.calling.citations import read_citation
from vibe_llms.dialects.responses.calling.endings import ResponseOutline
from vibe_llms.dialects.responses.calling.items import read_item
from vibe_llms.dialects.responses.calling.pieces import (
    Piece,
    list_channels,
    produce_start,
    read_pieces,
)
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.events.stream import (
    Channel,
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentKind,
    ContentStartedEvent,
    LossEvent,
    NativeEvent,
    StreamEvent,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister
from vibe_llms.messages.contents import Native, RefusalContent
from vibe_llms.messages.losses import Loss, LossKind

DELTAS: Final[Mapping[str, tuple[ContentKind, Channel]]] = {
    "response.code_interpreter_call_code.delta": ("invocation", "arguments"),
    "response.custom_tool_call_input.delta": ("invocation", "arguments"),
    "response.function_call_arguments.delta": ("invocation", "arguments"),
    "response.mcp_call_arguments.delta": ("invocation", "arguments"),
    "response.output_text.delta": ("text", "text"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary"),
    "response.reasoning_text.delta": ("reasoning", "text"),
    "response.refusal.delta": ("refusal", "text"),
}
DONES: Final[Mapping[str, tuple[ContentKind, Channel, str]]] = {
    "response.code_interpreter_call_code.done": ("invocation", "arguments", "code"),
    "response.custom_tool_call_input.done": ("invocation", "arguments", "input"),
    "response.function_call_arguments.done": ("invocation", "arguments", "arguments"),
    "response.mcp_call_arguments.done": ("invocation", "arguments", "arguments"),
    "response.output_text.done": ("text", "text", "text"),
    "response.reasoning_summary_text.done": ("reasoning", "summary", "text"),
    "response.reasoning_text.done": ("reasoning", "text", "text"),
    "response.refusal.done": ("refusal", "text", "refusal"),
}
REDUNDANT: Final = frozenset(
    {
        "keepalive",
        "ping",
        "response.content_part.done",
        "response.reasoning_part.added",
        "response.reasoning_part.done",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
    }
)
"""Events that only repeat the data of others."""

NO_INDEX: Final = -1
"""Stands for a missing index: items without an index are streamed one after the other."""

_CHANGING_FIELDS: Final = ("content", "encrypted_content", "role", "status", "summary", "type")
"""Fields of a streamed item whose initial values differ from the final ones."""

_PART_KINDS: Final[Mapping[str, ContentKind]] = {"output_text": "text", "refusal": "refusal"}
_SINGLE_KINDS: Final = frozenset({"reasoning", "invocation"})
"""Kinds of content that an item has only once, even if it arrives in several parts."""


@define(eq=False)
class StreamedContent:
    """A content that has begun.

    Attributes:
        index: Index of the content.
        fast_count: The number of characters of text received on the fast path.
        counts: The number of characters received otherwise, by channel and the vendor's index of
            the part.
    """

    index: int
    fast_count: int = 0
    counts: dict[tuple[Channel, int], int] = attrs.field(factory=dict)

    def count_received(self, channel: Channel, part_index: int | None = None) -> int:
        """Return the number of characters received on a channel, of one part or of all."""
        slow_count = sum(
            count
            for (name, part), count in self.counts.items()
            if name == channel and part_index in (None, part)
        )
        return slow_count + (self.fast_count if channel == "text" else 0)


@define(eq=False)
class _ItemState:
    """State of an item that has begun.

    Attributes:
        group: Group of its contents.
        id: Id of the item in its first event.
        contents: Contents of the item, in the order of their first events.
        addresses: Contents by the kind and the vendor's index of their part.
        waiting: Arguments of a call that arrived before its name.
        first_copy: The item in its first event, if it is not streamed.
        native: Native fields of the first event, if the item is streamed.
        summary: The vendor's index of the summary in progress, if there are several.
    """

    group: int
    id: str | None
    contents: list[StreamedContent] = attrs.field(factory=list)
    addresses: dict[tuple[str, int], StreamedContent] = attrs.field(factory=dict)
    waiting: list[str] = attrs.field(factory=list)
    first_copy: Mapping[str, Any] | None = None
    native: Native | None = None
    summary: int | None = None
    is_done: bool = False


class ItemsTable:
    """The items of a response, and their events.

    Args:
        events: Receives the events.

    Attributes:
        texts: The content for each expected address of a text delta.
        outline: The properties that affect the stop reason.
    """

    def __init__(self, events: list[StreamEvent]) -> None:
        self._events = events
        self.texts: dict[tuple[int, int], StreamedContent] = {}
        self.outline = ResponseOutline()
        self._order: list[_ItemState] = []
        self._by_output_index: dict[int, _ItemState] = {}
        self._count = 0
        self._owners: dict[str, Owner] = {}
        self._audio: ResponseAudio | None = None

    @property
    def is_empty(self) -> bool:
        """True if there was no item at all, not even one with an empty text."""
        return not self._order and self._audio is None

    def begin(self, item: Mapping[str, Any], output_index: int | None) -> None:
        """Begin an item, and its content if that is known at once."""
        state = self._open(output_index, item.get("id"))
        kind = item.get("type")
        if kind in ("message", "reasoning"):
            state.native = make_native(PROTOCOL, collect_extras(item, _CHANGING_FIELDS))
        if kind in ("function_call", "custom_tool_call"):
            # Without a name and an id the call cannot begin: its events wait.
            if item.get("name") and (item.get("call_id") or item.get("id")):
                self._begin_call(state, item)
        elif kind == "reasoning":
            self._access(state, "reasoning", 0)
        # By suffix, so that calls of newer types are recognized, too.
        elif isinstance(kind, str) and kind.endswith(("_call", "_request", "program")):
            self._begin_call(state, item)
        elif kind not in (None, "message"):
            state.first_copy = item
            (piece, *_), native = read_pieces(item, self._owners)
            self._start_piece(state, piece, native)

    def _begin_call(self, state: _ItemState, item: Mapping[str, Any]) -> None:
        invocation = read_item(item, self._owners)[0]
        if not isinstance(invocation, InvocationCanister):
            return
        streamed = self._start_piece(state, invocation)
        state.addresses["invocation", 0] = streamed
        is_function = item.get("type") in ("function_call", "custom_tool_call")
        first_arguments = [invocation.arguments] if is_function else []
        for text in (*first_arguments, *state.waiting):
            self._add(streamed, "arguments", 0, text)
        state.waiting.clear()

    def begin_part(self, event: Mapping[str, Any]) -> None:
        """Begin the content of a part of a message."""
        part = event["part"]
        kind = _PART_KINDS.get(part.get("type"))
        if kind is None:
            return
        state = self._find(event)
        part_index = event.get("content_index") or 0
        streamed = self._access(state, kind, part_index)
        if kind == "text":
            self.texts[event.get("output_index", NO_INDEX), part_index] = streamed
        text = part.get("text") or part.get("refusal")
        if isinstance(text, str):
            self._add(streamed, "text", part_index, text)

    def add_delta(self, event: Mapping[str, Any], kind: ContentKind, channel: Channel) -> None:
        """Continue a content."""
        text = event.get("delta")
        if not isinstance(text, str):
            raise TypeError("a delta is not a text")
        state = self._find(event)
        if state.is_done:
            return
        if kind == "invocation" and ("invocation", 0) not in state.addresses:
            state.waiting.append(text)  # the tool's name is not known yet
            return
        part_index = _read_part_index(event)
        streamed = self._access(state, kind, part_index)
        self._separate(state, streamed, channel, part_index)
        self._add(streamed, channel, part_index, text)

    def complete_delta(
        self, event: Mapping[str, Any], kind: ContentKind, channel: Channel, field: str
    ) -> None:
        """Add the part of a final copy that was not streamed; usually nothing."""
        text = event.get(field)
        state = self._find(event)
        if not isinstance(text, str) or state.is_done:
            return
        if kind == "invocation" and ("invocation", 0) not in state.addresses:
            state.waiting[:] = [text]  # it contains all of the streamed text
            return
        part_index = _read_part_index(event)
        streamed = self._access(state, kind, part_index)
        self._separate(state, streamed, channel, part_index)
        received_count = streamed.count_received(channel, part_index)
        if len(text) > received_count:
            self._add(streamed, channel, part_index, text[received_count:])

    def cite(self, event: Mapping[str, Any]) -> None:
        """Add a citation to a text."""
        state, annotation = self._find(event), event.get("annotation")
        if isinstance(annotation, Mapping) and not state.is_done:
            streamed = self._access(state, "text", _read_part_index(event))
            citation = read_citation(annotation)
            self._events.append(ContentCitedEvent(streamed.index, citation))

    def pass_on(self, kind: str, event: Mapping[str, Any]) -> None:
        """Pass on an unknown event, with the content that it is about."""
        output_index = event.get("output_index")
        state = self._by_output_index.get(output_index) if isinstance(output_index, int) else None
        index = state.contents[0].index if state is not None and state.contents else None
        native = make_native(PROTOCOL, event)
        self._events.append(NativeEvent(kind=kind, native=native, index=index))

    def add_audio(self, kind: str, event: Mapping[str, Any]) -> None:
        """Continue the audio of the response."""
        if self._audio is None:
            if not event.get("delta"):
                return
            self._audio = ResponseAudio(self._take_index())
            start = ContentStartedEvent(index=self._audio.index, kind="audio", group=-1)
            self._events.append(start)
        self._events += self._audio.add(kind, event)

    def finish(self, item: Mapping[str, Any], output_index: int | None) -> None:
        """End an item with the authoritative copy."""
        state = self._find({"output_index": output_index, "item_id": item.get("id")})
        if not state.is_done:
            self._complete(state, item)

    def settle(self, output: Sequence[Mapping[str, Any]]) -> None:
        """End the rest of a response with the vendor's copy of the whole."""
        waiting = list(self._order)
        for position, item in enumerate(output):
            state = self._match(waiting, position, item)
            if not state.is_done:
                self._complete(state, item)
        for state in self._order:
            if not state.is_done:
                self._close(state)
        if self._audio is not None:
            content = self._audio.produce_content()
            self._events.append(ContentFinishedEvent(index=self._audio.index, item=content))

    def _match(
        self, waiting: list[_ItemState], position: int, item: Mapping[str, Any]
    ) -> _ItemState:
        """Return the streamed item of a copy; a new one if there is none.

        An item is found by its index, then by its id, then by order, as ids may repeat or change.
        """
        at_index = self._by_output_index.get(position)
        with_id = next((state for state in waiting if state.id == item.get("id")), None)
        for state in (at_index, with_id, *waiting[:1]):
            if state is not None and state in waiting:
                waiting.remove(state)
                return state
        return self._open(None, item.get("id"))

    def _complete(self, state: _ItemState, item: Mapping[str, Any]) -> None:
        pieces, native = read_pieces(item, self._owners)
        is_shifted = _is_shifted(state.contents, pieces)
        for position, piece in enumerate(pieces):
            if position < len(state.contents):
                streamed = state.contents[position]
            else:
                streamed = self._start_piece(state, piece, native)
            self._reconcile(streamed, piece, is_shifted=is_shifted)
            self._update_outline(piece)
            self._events.append(
                ContentFinishedEvent(index=streamed.index, item=piece, group_native=native)
            )
        # Contents that have begun, but are not in the copy, end with their streamed text.
        for streamed in state.contents[len(pieces) :]:
            self._events.append(ContentFinishedEvent(index=streamed.index))
        state.is_done = True

    def _close(self, state: _ItemState) -> None:
        """End an item without a final copy, with its streamed contents."""
        if state.first_copy is not None:
            self._complete(state, state.first_copy)
            return
        for streamed in state.contents:
            self._events.append(ContentFinishedEvent(index=streamed.index))
        if ("invocation", 0) in state.addresses:
            # Its real id is in the missing copy. Any id shows that a result is missing.
            self.outline.unanswered_ids.add(str(state.id or state.group))
        state.is_done = True

    def _update_outline(self, piece: Piece) -> None:
        if isinstance(piece, InvocationCanister):
            self._owners[piece.invocation_id] = piece.owner
            if piece.owner is Owner.OURS:
                self.outline.unanswered_ids.add(piece.invocation_id)
        elif isinstance(piece, ResultCanister):
            self.outline.unanswered_ids.discard(piece.invocation_id)
        elif isinstance(piece, RefusalContent):
            self.outline.has_refused = True

    def _start_piece(
        self, state: _ItemState, piece: Piece, message_native: Native | None = None
    ) -> StreamedContent:
        streamed = StreamedContent(self._take_index())
        state.contents.append(streamed)
        self._events.append(produce_start(piece, streamed.index, state.group, message_native))
        return streamed

    def _reconcile(self, streamed: StreamedContent, piece: Piece, *, is_shifted: bool) -> None:
        """Add the part of the copy that was not streamed, and report differences."""
        for channel, text in list_channels(piece):
            received_count = streamed.count_received(channel)
            if received_count == 0:
                self._events.append(ContentDeltaEvent(streamed.index, text, channel))
            elif received_count != len(text) and not is_shifted:
                reason = "the vendor's final value differs from the streamed one and replaces it"
                path = f"contents[{streamed.index}].{channel}"
                loss = Loss(kind=LossKind.COERCED, path=path, reason=reason)
                self._events.append(LossEvent(loss=loss))

    def _open(self, output_index: int | None, identity: Any) -> _ItemState:
        state = _ItemState(len(self._order), identity if isinstance(identity, str) else None)
        self._order.append(state)
        key = output_index if isinstance(output_index, int) else NO_INDEX
        # An index may be reused for another item: the fast path must not find the earlier one.
        for address in [address for address in self.texts if address[0] == key]:
            del self.texts[address]
        if key == NO_INDEX:
            return state
        earlier = self._by_output_index.get(key)
        # A new item at the index of another: the earlier one gets no more events.
        if earlier is not None and not earlier.is_done:
            self._close(earlier)
        self._by_output_index[key] = state
        return state

    def _find(self, event: Mapping[str, Any]) -> _ItemState:
        """Return the item of an event; begin it if necessary."""
        output_index = event.get("output_index")
        state = self._by_output_index.get(output_index) if isinstance(output_index, int) else None
        if state is None and not isinstance(output_index, int):
            state = self._find_by_id(event.get("item_id"))
            if state is None and self._order and not self._order[-1].is_done:
                state = self._order[-1]  # without index and id, an event continues the last item
        return state or self._open(output_index, event.get("item_id"))

    def _find_by_id(self, identity: Any) -> _ItemState | None:
        if not isinstance(identity, str):
            return None
        # Ids may repeat: use the last one that has not ended.
        with_id = [state for state in self._order if state.id == identity]
        return next((state for state in reversed(with_id) if not state.is_done), None)

    def _access(self, state: _ItemState, kind: ContentKind, part_index: int) -> StreamedContent:
        """Return a content; begin it if necessary."""
        key = (kind, 0 if kind in _SINGLE_KINDS else part_index)
        streamed = state.addresses.get(key)
        if streamed is None:
            streamed = state.addresses[key] = StreamedContent(self._take_index())
            state.contents.append(streamed)
            # Reasoning is an item by itself, any other content is a part of a message.
            is_item = kind == "reasoning"
            native = state.native if is_item else None
            message_native = None if is_item else state.native
            start = ContentStartedEvent(
                index=streamed.index,
                kind=kind,
                group=state.group,
                native=native,
                group_native=message_native,
            )
            self._events.append(start)
        return streamed

    def _take_index(self) -> int:
        self._count += 1
        return self._count - 1

    def _separate(
        self, state: _ItemState, streamed: StreamedContent, channel: Channel, part_index: int
    ) -> None:
        """Separate a summary from the one before."""
        if channel != "summary":
            return
        if state.summary is not None and state.summary != part_index:
            self._add(streamed, "summary", state.summary, "\n\n")
        state.summary = part_index

    def _add(self, streamed: StreamedContent, channel: Channel, part_index: int, text: str) -> None:
        if text:
            key = (channel, part_index)
            streamed.counts[key] = streamed.counts.get(key, 0) + len(text)
            self._events.append(ContentDeltaEvent(streamed.index, text, channel))


def _is_shifted(contents: Sequence[StreamedContent], pieces: Sequence[Piece]) -> bool:
    """Return whether all text was streamed, but with fewer contents than the copy has.

    The texts then belong to other positions than in the copy, so that comparing them is useless.
    """
    if len(contents) >= len(pieces):
        return False
    totals: dict[Channel, int] = {}
    for piece in pieces:
        for channel, text in list_channels(piece):
            totals[channel] = totals.get(channel, 0) + len(text)
    for channel, total in totals.items():
        received = sum(each.count_received(channel) for each in contents)
        if received != total:
            return False
    return True


def _read_part_index(event: Mapping[str, Any]) -> int:
    part_index = event.get("content_index", event.get("summary_index"))
    return part_index if isinstance(part_index, int) else 0
