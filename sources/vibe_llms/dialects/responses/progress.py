"""The items of a response while they come."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.ledger import seal_native
from vibe_llms.dialects.responses.citations import read_citation
from vibe_llms.dialects.responses.endings import Outline
from vibe_llms.dialects.responses.items import read_item
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
from vibe_llms.messages.canisters import (
    InvocationCanister,
    Owner,
    ResultCanister,
)
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    Native,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
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
"""Events that say nothing which others do not say."""

_PART_KINDS: Final[Mapping[str, ContentKind]] = {"output_text": "text", "refusal": "refusal"}

_Piece = AnyContent | InvocationCanister | ResultCanister


@attrs.define(eq=False)
class _Item:
    """An item that has begun.

    Attributes:
        group: Of its contents.
        id: In the words of the event that began it.
        indices: Of its contents, in the order in which they began.
        addresses: From the kind and the vendor's index of a part to the index of the content.
        arrived: How many characters have come, by content, channel and the vendor's index.
        summary: The vendor's index of the summary that comes, where several do.
    """

    group: int
    id: str | None
    indices: list[int] = attrs.field(factory=list)
    addresses: dict[tuple[str, int], int] = attrs.field(factory=dict)
    arrived: dict[tuple[int, str, int], int] = attrs.field(factory=dict)
    waiting: list[str] = attrs.field(factory=list)
    summary: int | None = None
    is_done: bool = False


class ItemsTable:
    """Knows the items and says in events what becomes of them.

    Attributes:
        events: Where events go; its owner takes them and puts a new list there.
        texts: The usual address of a text delta, to the index of its content.
        sizes: How many characters of each content have come that way.
        outline: What matters for why the response ends.
    """

    def __init__(self) -> None:
        self.events: list[StreamEvent] = []
        self.texts: dict[tuple[int, int], int] = {}
        self.sizes: dict[int, int] = {}
        self.outline = Outline()
        self._order: list[_Item] = []
        self._by_place: dict[int, _Item] = {}
        self._count = 0
        self._owners: dict[str, Owner] = {}
        self._audio: tuple[int, list[str], list[str]] | None = None

    def begin(self, item: Mapping[str, Any], place: int | None) -> None:
        """Begins an item, and its content where that is known at once."""
        state = self._open(place, item.get("id"))
        kind = item.get("type")
        if kind in ("function_call", "custom_tool_call"):
            if item.get("name") and (item.get("call_id") or item.get("id")):
                self._begin_call(state, item)
        elif kind == "reasoning":
            self._access(state, "reasoning", 0)
        elif isinstance(kind, str) and kind.endswith(("_call", "_request", "program")):
            self._begin_call(state, item)

    def _begin_call(self, state: _Item, item: Mapping[str, Any]) -> None:
        invocation = read_item(item, self._owners)[0]
        if not isinstance(invocation, InvocationCanister):
            return
        index = self._start_piece(state, invocation)
        state.addresses["invocation", 0] = index
        for text in (*((invocation.arguments,) if _is_function(item) else ()), *state.waiting):
            if text:
                self._add(state, index, "arguments", 0, text)
        state.waiting.clear()

    def begin_part(self, event: Mapping[str, Any]) -> None:
        """Begins the content of a part of a message."""
        part = event["part"]
        kind = _PART_KINDS.get(part.get("type"))
        if kind is None:
            return
        state = self._find(event)
        place = event.get("content_index") or 0
        index = self._access(state, kind, place)
        if kind == "text" and isinstance(event.get("output_index"), int):
            self.texts[event["output_index"], place] = index
        text = part.get("text") or part.get("refusal")
        if text:
            self._add(state, index, "text", place, text)

    def add_delta(self, event: Mapping[str, Any], kind: ContentKind, channel: Channel) -> None:
        """Continues a content."""
        text = event.get("delta")
        if not isinstance(text, str):
            raise TypeError("a delta is no text")
        state = self._find(event)
        if state.is_done:
            return
        if kind == "invocation" and ("invocation", 0) not in state.addresses:
            state.waiting.append(text)  # nobody has said yet what is called
            return
        place = _read_place(event)
        index = self._access(state, kind, 0 if kind in ("reasoning", "invocation") else place)
        self._separate(state, index, channel, place)
        self._add(state, index, channel, place, text)

    def complete_delta(
        self, event: Mapping[str, Any], kind: ContentKind, channel: Channel, field: str
    ) -> None:
        """Adds what a final copy has more than had come; mostly nothing."""
        text = event.get(field)
        state = self._find(event)
        if not isinstance(text, str) or state.is_done:
            return
        if kind == "invocation" and ("invocation", 0) not in state.addresses:
            state.waiting[:] = [text]
            return
        place = _read_place(event)
        index = self._access(state, kind, 0 if kind in ("reasoning", "invocation") else place)
        had = self._measure(state, index, channel, place)
        if len(text) > had:
            self._separate(state, index, channel, place)
            self._add(state, index, channel, place, text[had:])

    def cite(self, event: Mapping[str, Any]) -> None:
        """Adds a citation to a text."""
        state, annotation = self._find(event), event.get("annotation")
        if isinstance(annotation, Mapping) and not state.is_done:
            index = self._access(state, "text", event.get("content_index") or 0)
            citation = read_citation(annotation)
            self.events.append(ContentCitedEvent(index, citation))

    def pass_on(self, kind: str, event: Mapping[str, Any]) -> None:
        """Passes on an event without a common word, with the content that it is about."""
        place = event.get("output_index")
        state = self._by_place.get(place) if isinstance(place, int) else None
        index = state.indices[0] if state is not None and state.indices else None
        native = seal_native(PROTOCOL, event)
        self.events.append(NativeEvent(kind=kind, native=native, index=index))

    def add_audio(self, kind: str, event: Mapping[str, Any]) -> None:
        """Continues the sound of the response, of which there is one."""
        text = event.get("delta")
        if self._audio is None:
            if not text:
                return
            self._audio = (self._take_index(), [], [])
            start = ContentStartedEvent(index=self._audio[0], kind="audio", group=-1)
            self.events.append(start)
        index, data, transcript = self._audio
        if isinstance(text, str) and text:
            spoken = "transcript" in kind
            (transcript if spoken else data).append(text)
            channel: Channel = "transcript" if spoken else "data"
            self.events.append(ContentDeltaEvent(index, text, channel))

    def finish(self, item: Mapping[str, Any], place: int | None) -> None:
        """Ends an item with the copy that counts."""
        state = self._by_place.get(place) if place is not None else self._find_id(item.get("id"))
        if state is None:
            state = self._open(place, item.get("id"))
        if state.is_done:
            return
        self._complete(state, item)

    def settle(self, output: Sequence[Mapping[str, Any]]) -> None:
        """Ends what is left of a response with the vendor's copy of the whole."""
        waiting = list(self._order)
        for position, item in enumerate(output):
            state = self._match(waiting, position, item)
            if not state.is_done:
                self._complete(state, item)
        for state in self._order:
            if not state.is_done:
                self._close(state)
        self._finish_audio()

    def _match(self, waiting: list[_Item], position: int, item: Mapping[str, Any]) -> _Item:
        """Returns the item of the stream of which this is the copy; a new one if there is none.

        The place says it; an id does where there was no place. Ids may repeat, or change.
        """
        placed = self._by_place.get(position)
        named = next((state for state in waiting if state.id == item.get("id")), None)
        for state in (placed, named, *waiting[:1]):
            if state is not None and state in waiting:
                waiting.remove(state)
                return state
        return self._open(None, item.get("id"))

    def _complete(self, state: _Item, item: Mapping[str, Any]) -> None:
        pieces, native = self._read_pieces(item)
        for position, piece in enumerate(pieces):
            if position < len(state.indices):
                index = state.indices[position]
                self._reconcile(state, index, piece)
            else:
                index = self._start_piece(state, piece)
                self._tell(index, piece)
            self._note(piece)
            self.events.append(ContentFinishedEvent(index=index, item=piece, group_native=native))
        for index in state.indices[len(pieces) :]:
            self.events.append(ContentFinishedEvent(index=index))
        state.is_done = True

    def _close(self, state: _Item) -> None:
        """Ends an item of which there is no copy: what has come is all."""
        for index in state.indices:
            self.events.append(ContentFinishedEvent(index=index))
        if ("invocation", 0) in state.addresses:
            self.outline.owed.add(str(state.id or state.group))
        state.is_done = True

    def _read_pieces(self, item: Mapping[str, Any]) -> tuple[list[_Piece], Native | None]:
        """Returns what an item holds, and what the message around it says."""
        pieces: list[_Piece] = []
        native = None
        for canister in read_item(item, self._owners):
            if isinstance(canister, InvocationCanister | ResultCanister):
                pieces.append(canister)
            else:
                pieces += canister.content
                native = canister.native
        return pieces, native

    def _note(self, piece: _Piece) -> None:
        if isinstance(piece, InvocationCanister):
            self._owners[piece.invocation_id] = piece.owner
            if piece.owner is Owner.OURS:
                self.outline.owed.add(piece.invocation_id)
        elif isinstance(piece, ResultCanister):
            self.outline.owed.discard(piece.invocation_id)
        elif isinstance(piece, RefusalContent):
            self.outline.refuses = True

    def _start_piece(self, state: _Item, piece: _Piece) -> int:
        index = self._take_index()
        state.indices.append(index)
        if isinstance(piece, InvocationCanister):
            event = ContentStartedEvent(
                index=index,
                kind="invocation",
                group=state.group,
                invocation_id=piece.invocation_id or None,
                name=piece.name,
                form=piece.form,
                owner=piece.owner,
            )
        elif isinstance(piece, ResultCanister):
            event = ContentStartedEvent(
                index=index,
                kind="result",
                group=state.group,
                invocation_id=piece.invocation_id,
                name=piece.name,
                owner=piece.owner,
            )
        else:
            event = ContentStartedEvent(index=index, kind=piece.type, group=state.group)
        self.events.append(event)
        return index

    def _tell(self, index: int, piece: _Piece) -> None:
        """Gives those who read along the text of what came in one piece."""
        for channel, text in _read_channels(piece):
            self.events.append(ContentDeltaEvent(index, text, channel))

    def _reconcile(self, state: _Item, index: int, piece: _Piece) -> None:
        """Adds what the copy has more than had come, and reports where the two differ."""
        for channel, text in _read_channels(piece):
            had = sum(
                count for (i, c, _), count in state.arrived.items() if (i, c) == (index, channel)
            )
            if channel == "text":
                had += self.sizes.get(index, 0)
            if had == 0:
                self.events.append(ContentDeltaEvent(index, text, channel))
            elif had != len(text) and channel != "summary":
                reason = "the vendor's final copy differs from what had come, and counts"
                path = f"contents[{index}].{channel}"
                loss = Loss(kind=LossKind.COERCED, path=path, reason=reason)
                self.events.append(LossEvent(loss=loss))

    def _open(self, place: int | None, identity: Any) -> _Item:
        state = _Item(len(self._order), identity if isinstance(identity, str) else None)
        before = self._by_place.get(place) if place is not None else None
        if before is not None and not before.is_done:
            self._close(before)
        self._order.append(state)
        if isinstance(place, int):
            self._by_place[place] = state
            self.texts = {key: index for key, index in self.texts.items() if key[0] != place}
        return state

    def _find(self, event: Mapping[str, Any]) -> _Item:
        """Returns the item that an event is about, which begins with it where it has to."""
        place = event.get("output_index")
        state = self._by_place.get(place) if isinstance(place, int) else None
        if state is None and not isinstance(place, int):
            state = self._find_id(event.get("item_id"))
            if state is None and self._order and not self._order[-1].is_done:
                state = self._order[-1]
        return state or self._open(place, event.get("item_id"))

    def _find_id(self, identity: Any) -> _Item | None:
        if not isinstance(identity, str):
            return None
        named = [state for state in self._order if state.id == identity]
        return next((state for state in reversed(named) if not state.is_done), None)

    def _access(self, state: _Item, kind: ContentKind, place: int) -> int:
        """Returns the index of a content, which begins with it where it has to."""
        index = state.addresses.get((kind, place))
        if index is None:
            index = state.addresses[kind, place] = self._take_index()
            state.indices.append(index)
            start = ContentStartedEvent(index=index, kind=kind, group=state.group)
            self.events.append(start)
        return index

    def _take_index(self) -> int:
        index = self._count
        self._count += 1
        self.sizes[index] = 0
        return index

    def _separate(self, state: _Item, index: int, channel: Channel, place: int) -> None:
        """Sets a summary off from the one before."""
        if channel != "summary":
            return
        if state.summary is not None and state.summary != place:
            self.events.append(ContentDeltaEvent(index, "\n\n", "summary"))
        state.summary = place

    def _add(self, state: _Item, index: int, channel: Channel, place: int, text: str) -> None:
        key = (index, channel, place)
        state.arrived[key] = state.arrived.get(key, 0) + len(text)
        self.events.append(ContentDeltaEvent(index, text, channel))

    def _measure(self, state: _Item, index: int, channel: Channel, place: int) -> int:
        quick = self.sizes.get(index, 0) if channel == "text" else 0
        return state.arrived.get((index, channel, place), 0) + quick

    def _finish_audio(self) -> None:
        if self._audio is None:
            return
        index, pieces, transcript = self._audio
        try:
            data = b"".join(base64.b64decode(piece) for piece in pieces)
        except binascii.Error as error:
            raise ValueError("its sound is not in base 64") from error
        # The protocol has no word for what kind of sound it is.
        item = AudioContent(mime_type="audio/*", data=data, transcript="".join(transcript) or None)
        self.events.append(ContentFinishedEvent(index=index, item=item))
        self._audio = None


def _read_place(event: Mapping[str, Any]) -> int:
    place = event.get("content_index", event.get("summary_index"))
    return place if isinstance(place, int) else 0


def _is_function(item: Mapping[str, Any]) -> bool:
    return item.get("type") in ("function_call", "custom_tool_call")


def _read_channels(piece: _Piece) -> list[tuple[Channel, str]]:
    """Returns what of a content can be read while it comes, as far as it says anything."""
    match piece:
        case TextualContent() | RefusalContent():
            told: list[tuple[Channel, str]] = [("text", piece.text)]
        case ReasoningContent():
            told = [("summary", "\n\n".join(piece.summary)), ("text", piece.text)]
        case InvocationCanister():
            told = [("arguments", piece.arguments)]
        case _:
            told = []
    return [(channel, text) for channel, text in told if text]
