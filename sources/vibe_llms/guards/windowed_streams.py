"""Guards with a window: the last characters of each content are held back and examined."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import attrs

from vibe_llms.events.stream import (
    Channel,
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentKind,
    NativeEvent,
    ResponseFinishedEvent,
    StreamEvent,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.guards.active import ActiveGuard, redact, redact_texts
from vibe_llms.guards.stream_guards import WINDOWED_CHANNELS, StreamGuard, list_deltas
from vibe_llms.guards.texts import (
    forget_span,
    join_texts,
    rewrite_citation,
    rewrite_item,
)
from vibe_llms.messages.canisters import InvocationCanister
from vibe_llms.messages.contents import ReasoningContent, RefusalContent, TextualContent
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.plugins.specification.guards import Inspection


@define(eq=False)
class _Channel:
    """The texts of one channel of a content.

    Attributes:
        kind: Kind of the content.
        context: The last delivered characters, as they arrived.
        pieces: Pieces that are held back.
        size: Their length.
        due: The length at which they are examined.
        arrived: All texts before the pieces, as they arrived.
        delivered: The same, as they were delivered.
    """

    kind: ContentKind
    context: str = ""
    pieces: list[str] = attrs.field(factory=list)
    size: int = 0
    due: int = 0
    arrived: list[str] = attrs.field(factory=list)
    delivered: list[str] = attrs.field(factory=list)


@define(eq=False)
class _Content:
    """A content that has not ended.

    Attributes:
        channels: Texts by channel.
        late: Events that are held back until the content ends.
        is_changed: Whether the guard has replaced something.
    """

    channels: dict[Channel, _Channel] = attrs.field(factory=dict)
    late: list[ContentDeltaEvent] = attrs.field(factory=list)
    is_changed: bool = False


class WindowedStreamGuard(StreamGuard):
    """Holds back the last characters of each text.

    The held text is examined whenever half a window of characters has arrived, so that each
    character is examined at most five times. A finding at the end of what has arrived is held back
    as a whole, and examined again when it has grown by half.

    Args:
        window: Number of characters to hold back.
    """

    def __init__(self, active: ActiveGuard, inspection: Inspection, window: int) -> None:
        super().__init__(active, inspection)
        self._window = window
        self._step = max(window // 2, 1)
        self._contents: dict[int, _Content] = {}
        self._is_changed = False

    @property
    def note(self) -> Loss:
        """The note that a stream is held back."""
        reason = f"the guard {self._active.name!r} holds back the last {self._window} characters"
        return Loss(kind=LossKind.COERCED, path="stream", reason=reason, is_routine=True)

    async def feed(self, events: Sequence[StreamEvent]) -> list[StreamEvent]:
        """Return the events that may be delivered now. Raises ConverseError."""
        ready: list[StreamEvent] = []
        for event in events:
            match event:
                case ContentDeltaEvent():
                    ready += await self._take(event)
                case ContentFinishedEvent():
                    ready += await self._finish(event)
                case ContentCitedEvent():
                    ready.append(await self._examine_citation(event))
                case NativeEvent():
                    self._hide(event)
                case ResponseFinishedEvent():
                    ready += self._list_new_losses()
                    ready.append(attrs.evolve(event, native=None) if self._is_changed else event)
                case _:
                    ready.append(event)
        return [*self._list_new_losses(), *ready] if ready else ready

    async def give_up(self) -> list[StreamEvent]:
        """Return the texts that were held back, examined; not calls, which are incomplete."""
        ready: list[StreamEvent] = []
        for index, content in self._contents.items():
            for name in content.channels:
                ready += await self._release(index, content, name, is_complete=True)
        return [*self._list_new_losses(), *ready]

    async def _take(self, event: ContentDeltaEvent) -> list[StreamEvent]:
        content = self._contents.setdefault(event.index, _Content())
        if event.channel == "data" or not event.text:
            return [event]
        if event.channel not in WINDOWED_CHANNELS:
            content.late.append(event)
            return []
        channel = content.channels.get(event.channel)
        if channel is None:
            channel = _Channel(event.kind, due=self._window + self._step)
            content.channels[event.channel] = channel
        channel.pieces.append(event.text)
        channel.size += len(event.text)
        if channel.size < channel.due:
            return []
        return await self._release(event.index, content, event.channel, is_complete=False)

    async def _release(
        self, index: int, content: _Content, name: Channel, *, is_complete: bool
    ) -> list[StreamEvent]:
        """Examine the held text of a channel, and return the part before the window."""
        channel = content.channels[name]
        new = "".join(channel.pieces)
        if not new:
            return []
        begin = len(channel.context)
        text = channel.context + new
        inspection = attrs.evolve(
            self._inspection, texts=(text,), begin=begin, is_complete=is_complete
        )
        found = await self._active.examine(inspection)
        cut = len(text) if is_complete else len(text) - self._window
        for each in reversed(found):  # from the end: a cut that moves back may be in an earlier one
            if each.end == len(text) and not is_complete:
                cut = min(cut, each.start)
            elif each.start < cut < each.end:
                cut = each.end
        cut = max(cut, begin)
        passed = [each for each in found if each.end <= cut]
        if passed:
            content.is_changed = self._is_changed = True
            self._add(self._active.report(f"contents[{index}]", each) for each in passed)
        ready = redact(text[:cut], passed)[begin:]  # nothing in the context is replaced
        channel.arrived.append(text[begin:cut])
        channel.delivered.append(ready)
        channel.context = text[max(0, cut - self._window) : cut]
        channel.pieces, channel.size = [text[cut:]], len(text) - cut
        growth = max(self._step, channel.size // 2)
        channel.due = max(self._window + self._step, channel.size + growth)
        return [ContentDeltaEvent(index, ready, name, channel.kind)] if ready else []

    async def _finish(self, event: ContentFinishedEvent) -> list[StreamEvent]:
        index = event.index
        content = self._contents.pop(index, None) or _Content()
        ready: list[StreamEvent] = []
        for name in content.channels:
            ready += await self._release(index, content, name, is_complete=True)
        item: Any = event.item
        arrived = "".join(text for each in content.channels.values() for text in each.arrived)
        is_known = arrived == join_texts(item)
        if is_known and not content.is_changed and not content.late:
            return [*ready, event]
        rewritten = await self._examine_item(index, _deliver(item, content))
        if rewritten is item:
            return [*ready, *content.late, event]
        self._is_changed = True
        if isinstance(rewritten, InvocationCanister):
            ready += list_deltas(index, rewritten)
        item = _deliver(rewritten, content)
        return [*ready, ContentFinishedEvent(index=index, item=item)]

    async def _examine_item(self, index: int, item: Any) -> Any:
        tool = item.name if isinstance(item, InvocationCanister) else ""
        inspection = attrs.evolve(self._inspection, tool=tool)
        rewrite = partial(rewrite_item, item, f"contents[{index}]")
        translation = await redact_texts(self._active, rewrite, inspection)
        self._add(translation.losses)
        return translation.value

    async def _examine_citation(self, event: ContentCitedEvent) -> ContentCitedEvent:
        rewrite = partial(rewrite_citation, event.citation, f"contents[{event.index}].citation")
        translation = await redact_texts(self._active, rewrite, self._inspection)
        if translation.value is event.citation:
            return event
        self._add(translation.losses)
        return ContentCitedEvent(index=event.index, citation=translation.value)


def _deliver(item: Any, content: _Content) -> Any:
    """Return an item with the texts that were delivered, if the guard has changed them."""
    if not content.is_changed:
        return item
    texts = {name: "".join(each.delivered) for name, each in content.channels.items()}
    match item:
        case TextualContent():
            citations = tuple(map(forget_span, item.citations))
            text = texts.get("text", "")
            return evolve_unchecked(item, text=text, citations=citations, native=None)
        case RefusalContent():
            return evolve_unchecked(item, text=texts.get("text", ""), native=None)
        case ReasoningContent():
            summary = (texts["summary"],) if "summary" in texts else ()
            text = texts.get("text", "")
            return evolve_unchecked(item, text=text, summary=summary, signature=None, native=None)
        case _:
            return item
