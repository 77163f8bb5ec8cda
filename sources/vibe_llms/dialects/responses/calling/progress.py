"""The items of a response while they are streamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.extras import leave, make_native
from vibe_llms.dialects.responses.calling.citations import read_citation
from vibe_llms.dialects.responses.calling.endings import ResponseOutline
from vibe_llms.dialects.responses.calling.items import read_item
from vibe_llms.dialects.responses.calling.pieces import (
    Piece,
    list_channels,
    produce_start,
    read_pieces,
)
from vibe_llms.dialects.responses.calling.sounds import ResponseSound
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
SILENT: Final = frozenset(
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
"""Events that only repeat others."""

NOWHERE: Final = -1
"""Index of items without one: they come one after the other."""

_GROWING: Final = ("content", "encrypted_content", "role", "status", "summary", "type")
"""Fields of a streamed item whose initial values differ from the final ones."""

_PART_KINDS: Final[Mapping[str, ContentKind]] = {"output_text": "text", "refusal": "refusal"}
_WHOLE_ITEMS: Final = frozenset({"reasoning", "invocation"})
"""Kinds of content that an item has only once, in however many parts."""


@define(eq=False)
class Growing:
    """A content that has begun.

    Attributes:
        index: Index of the content.
        quick: Characters of text received on the fast path.
        arrived: Characters received otherwise, by channel and the vendor's index of the part.
    """

    index: int
    quick: int = 0
    arrived: dict[tuple[Channel, int], int] = attrs.field(factory=dict)

    def measure(self, channel: Channel, place: int | None = None) -> int:
        """Return the number of characters received on a channel, of one part or of all."""
        slow = sum(
            count
            for (name, part), count in self.arrived.items()
            if name == channel and place in (None, part)
        )
        return slow + (self.quick if channel == "text" else 0)


@define(eq=False)
class _Item:
    """An item that has begun.

    Attributes:
        group: Group of its contents.
        id: Its id in the event that began it.
        contents: Its contents, in the order in which they began.
        addresses: From the kind and the vendor's index of a part to its content.
        waiting: Arguments of a call that arrived before its name.
        begun: The item in its first event, if it is not streamed.
        native: Fields of its first event without a common field, if it is streamed.
        summary: The vendor's index of the summary in progress, if there are several.
    """

    group: int
    id: str | None
    contents: list[Growing] = attrs.field(factory=list)
    addresses: dict[tuple[str, int], Growing] = attrs.field(factory=dict)
    waiting: list[str] = attrs.field(factory=list)
    begun: Mapping[str, Any] | None = None
    native: Native | None = None
    summary: int | None = None
    is_done: bool = False


class ItemsTable:
    """Tracks the items and makes their events.

    Args:
        events: Receives the events.

    Attributes:
        texts: The content for each expected address of a text delta.
        outline: The properties that affect the stop reason.
    """

    def __init__(self, events: list[StreamEvent]) -> None:
        self._events = events
        self.texts: dict[tuple[int, int], Growing] = {}
        self.outline = ResponseOutline()
        self._order: list[_Item] = []
        self._by_place: dict[int, _Item] = {}
        self._count = 0
        self._owners: dict[str, Owner] = {}
        self._sound: ResponseSound | None = None

    @property
    def is_empty(self) -> bool:
        """True if there was no item at all, not even one with an empty text."""
        return not self._order and self._sound is None

    def begin(self, item: Mapping[str, Any], place: int | None) -> None:
        """Begin an item, and its content if that is known at once."""
        state = self._open(place, item.get("id"))
        kind = item.get("type")
        if kind in ("message", "reasoning"):
            state.native = make_native(PROTOCOL, leave(item, _GROWING))
        if kind in ("function_call", "custom_tool_call"):
            # Without these the call is unknown: its events wait.
            if item.get("name") and (item.get("call_id") or item.get("id")):
                self._begin_call(state, item)
        elif kind == "reasoning":
            self._access(state, "reasoning", 0)
        # By suffix, so that calls of newer kinds begin, too.
        elif isinstance(kind, str) and kind.endswith(("_call", "_request", "program")):
            self._begin_call(state, item)
        elif kind not in (None, "message"):
            state.begun = item
            (piece, *_), native = read_pieces(item, self._owners)
            self._start_piece(state, piece, native)

    def _begin_call(self, state: _Item, item: Mapping[str, Any]) -> None:
        invocation = read_item(item, self._owners)[0]
        if not isinstance(invocation, InvocationCanister):
            return
        growing = self._start_piece(state, invocation)
        state.addresses["invocation", 0] = growing
        is_function = item.get("type") in ("function_call", "custom_tool_call")
        given = [invocation.arguments] if is_function else []
        for text in (*given, *state.waiting):
            self._add(growing, "arguments", 0, text)
        state.waiting.clear()

    def begin_part(self, event: Mapping[str, Any]) -> None:
        """Begin the content of a part of a message."""
        part = event["part"]
        kind = _PART_KINDS.get(part.get("type"))
        if kind is None:
            return
        state = self._find(event)
        place = event.get("content_index") or 0
        growing = self._access(state, kind, place)
        if kind == "text":
            self.texts[event.get("output_index", NOWHERE), place] = growing
        text = part.get("text") or part.get("refusal")
        if isinstance(text, str):
            self._add(growing, "text", place, text)

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
        place = _read_place(event)
        growing = self._access(state, kind, place)
        self._separate(state, growing, channel, place)
        self._add(growing, channel, place, text)

    def complete_delta(
        self, event: Mapping[str, Any], kind: ContentKind, channel: Channel, field: str
    ) -> None:
        """Add the part of a final copy that was not streamed; usually nothing."""
        text = event.get(field)
        state = self._find(event)
        if not isinstance(text, str) or state.is_done:
            return
        if kind == "invocation" and ("invocation", 0) not in state.addresses:
            state.waiting[:] = [text]  # it is the whole of the streamed text
            return
        place = _read_place(event)
        growing = self._access(state, kind, place)
        self._separate(state, growing, channel, place)
        had = growing.measure(channel, place)
        if len(text) > had:
            self._add(growing, channel, place, text[had:])

    def cite(self, event: Mapping[str, Any]) -> None:
        """Add a citation to a text."""
        state, annotation = self._find(event), event.get("annotation")
        if isinstance(annotation, Mapping) and not state.is_done:
            growing = self._access(state, "text", _read_place(event))
            citation = read_citation(annotation)
            self._events.append(ContentCitedEvent(growing.index, citation))

    def pass_on(self, kind: str, event: Mapping[str, Any]) -> None:
        """Pass on an unknown event, with the content that it is about."""
        place = event.get("output_index")
        state = self._by_place.get(place) if isinstance(place, int) else None
        index = state.contents[0].index if state is not None and state.contents else None
        native = make_native(PROTOCOL, event)
        self._events.append(NativeEvent(kind=kind, native=native, index=index))

    def add_sound(self, kind: str, event: Mapping[str, Any]) -> None:
        """Continue the audio of the response."""
        if self._sound is None:
            if not event.get("delta"):
                return
            self._sound = ResponseSound(self._take_index())
            start = ContentStartedEvent(index=self._sound.index, kind="audio", group=-1)
            self._events.append(start)
        self._events += self._sound.add(kind, event)

    def finish(self, item: Mapping[str, Any], place: int | None) -> None:
        """End an item with the authoritative copy."""
        state = self._find({"output_index": place, "item_id": item.get("id")})
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
        if self._sound is not None:
            content = self._sound.produce_content()
            self._events.append(ContentFinishedEvent(index=self._sound.index, item=content))

    def _match(self, waiting: list[_Item], position: int, item: Mapping[str, Any]) -> _Item:
        """Return the streamed item of a copy; a new one if there is none.

        Found by index, or by id without one. Ids may repeat, or change.
        """
        placed = self._by_place.get(position)
        named = next((state for state in waiting if state.id == item.get("id")), None)
        for state in (placed, named, *waiting[:1]):
            if state is not None and state in waiting:
                waiting.remove(state)
                return state
        return self._open(None, item.get("id"))

    def _complete(self, state: _Item, item: Mapping[str, Any]) -> None:
        pieces, native = read_pieces(item, self._owners)
        is_shifted = _is_shifted(state.contents, pieces)
        for position, piece in enumerate(pieces):
            if position < len(state.contents):
                growing = state.contents[position]
            else:
                growing = self._start_piece(state, piece, native)
            self._reconcile(growing, piece, is_shifted=is_shifted)
            self._note(piece)
            self._events.append(
                ContentFinishedEvent(index=growing.index, item=piece, group_native=native)
            )
        # Begun, but not in the copy: these end with their streamed contents.
        for growing in state.contents[len(pieces) :]:
            self._events.append(ContentFinishedEvent(index=growing.index))
        state.is_done = True

    def _close(self, state: _Item) -> None:
        """End an item without a copy: the streamed contents are all."""
        if state.begun is not None:
            self._complete(state, state.begun)
            return
        for growing in state.contents:
            self._events.append(ContentFinishedEvent(index=growing.index))
        if ("invocation", 0) in state.addresses:
            # Its real id is in the missing copy; only the fact that a result is owed matters.
            self.outline.owed.add(str(state.id or state.group))
        state.is_done = True

    def _note(self, piece: Piece) -> None:
        if isinstance(piece, InvocationCanister):
            self._owners[piece.invocation_id] = piece.owner
            if piece.owner is Owner.OURS:
                self.outline.owed.add(piece.invocation_id)
        elif isinstance(piece, ResultCanister):
            self.outline.owed.discard(piece.invocation_id)
        elif isinstance(piece, RefusalContent):
            self.outline.refuses = True

    def _start_piece(self, state: _Item, piece: Piece, around: Native | None = None) -> Growing:
        growing = Growing(self._take_index())
        state.contents.append(growing)
        self._events.append(produce_start(piece, growing.index, state.group, around))
        return growing

    def _reconcile(self, growing: Growing, piece: Piece, *, is_shifted: bool) -> None:
        """Add the part of the copy that was not streamed, and report differences."""
        for channel, text in list_channels(piece):
            had = growing.measure(channel)
            if had == 0:
                self._events.append(ContentDeltaEvent(growing.index, text, channel))
            elif had != len(text) and not is_shifted:
                reason = "the vendor's final value differs from the streamed one and replaces it"
                path = f"contents[{growing.index}].{channel}"
                loss = Loss(kind=LossKind.COERCED, path=path, reason=reason)
                self._events.append(LossEvent(loss=loss))

    def _open(self, place: int | None, identity: Any) -> _Item:
        state = _Item(len(self._order), identity if isinstance(identity, str) else None)
        self._order.append(state)
        key = place if isinstance(place, int) else NOWHERE
        # An index may be reused for another item: remove the fast addresses of the former.
        for address in [address for address in self.texts if address[0] == key]:
            del self.texts[address]
        if key == NOWHERE:
            return state
        before = self._by_place.get(key)
        # Another item is at its index: the former gets no more events.
        if before is not None and not before.is_done:
            self._close(before)
        self._by_place[key] = state
        return state

    def _find(self, event: Mapping[str, Any]) -> _Item:
        """Return the item of an event; begin it if necessary."""
        place = event.get("output_index")
        state = self._by_place.get(place) if isinstance(place, int) else None
        if state is None and not isinstance(place, int):
            state = self._find_id(event.get("item_id"))
            if state is None and self._order and not self._order[-1].is_done:
                state = self._order[-1]  # neither index nor id: it continues the last one
        return state or self._open(place, event.get("item_id"))

    def _find_id(self, identity: Any) -> _Item | None:
        if not isinstance(identity, str):
            return None
        named = [state for state in self._order if state.id == identity]
        return next((state for state in reversed(named) if not state.is_done), None)  # ids repeat

    def _access(self, state: _Item, kind: ContentKind, place: int) -> Growing:
        """Return a content; begin it if necessary."""
        key = (kind, 0 if kind in _WHOLE_ITEMS else place)
        growing = state.addresses.get(key)
        if growing is None:
            growing = state.addresses[key] = Growing(self._take_index())
            state.contents.append(growing)
            own, around = state.native, None
            if kind != "reasoning":  # a part of a message, not an item
                own, around = around, own
            start = ContentStartedEvent(
                index=growing.index, kind=kind, group=state.group, native=own, group_native=around
            )
            self._events.append(start)
        return growing

    def _take_index(self) -> int:
        self._count += 1
        return self._count - 1

    def _separate(self, state: _Item, growing: Growing, channel: Channel, place: int) -> None:
        """Separate a summary from the one before."""
        if channel != "summary":
            return
        if state.summary is not None and state.summary != place:
            self._add(growing, "summary", state.summary, "\n\n")
        state.summary = place

    def _add(self, growing: Growing, channel: Channel, place: int, text: str) -> None:
        if text:
            key = (channel, place)
            growing.arrived[key] = growing.arrived.get(key, 0) + len(text)
            self._events.append(ContentDeltaEvent(growing.index, text, channel))


def _is_shifted(contents: Sequence[Growing], pieces: Sequence[Piece]) -> bool:
    """Return whether all texts were streamed, but not every part: later ones are shifted by one."""
    if len(contents) >= len(pieces):
        return False
    totals: dict[Channel, int] = {}
    for piece in pieces:
        for channel, text in list_channels(piece):
            totals[channel] = totals.get(channel, 0) + len(text)
    return all(sum(each.measure(name) for each in contents) == totals[name] for name in totals)


def _read_place(event: Mapping[str, Any]) -> int:
    place = event.get("content_index", event.get("summary_index"))
    return place if isinstance(place, int) else 0
