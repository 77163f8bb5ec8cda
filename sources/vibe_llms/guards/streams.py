"""Guarded streams: the events of an answer, held back until a guard has examined their texts.

A guard with a window holds back the last characters of each content; one without a window holds
back the whole answer. Several guards are a chain: each examines the events that the one before it
lets pass.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Callable, Container, Iterable, Sequence
from functools import partial
from typing import Any, Final

import attrs

from vibe_llms.events.stream import (
    Channel,
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentKind,
    ContentStartedEvent,
    LossEvent,
    NativeEvent,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.guards.active import ActiveGuard, ChangeText, redact, redact_texts
from vibe_llms.guards.texts import (
    forget_span,
    join_texts,
    rewrite_all,
    rewrite_citation,
    rewrite_item,
)
from vibe_llms.messages.canisters import InvocationCanister
from vibe_llms.messages.contents import ReasoningContent, RefusalContent, TextualContent
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.plugins.specification.guards import Inspection
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.interfaces import AsyncStream
from vibe_llms.providers.streams import ResponseStream, detach

_WINDOWED: Final = frozenset({"text", "summary", "transcript"})
"""Channels whose texts are delivered as soon as the window has passed. The arguments of a call and
the signature of reasoning are held back until the end of their content."""


class StreamGuard(abc.ABC):
    """Examines the events of one answer with one guard.

    Args:
        active: The guard.
        inspection: Everything of its inspections but the texts.
    """

    def __init__(self, active: ActiveGuard, inspection: Inspection) -> None:
        self._active = active
        self._inspection = inspection
        self._losses: dict[Loss, None] = {}  # all so far, each once
        self._reported = 0

    @abc.abstractmethod
    async def feed(self, events: Sequence[StreamEvent]) -> list[StreamEvent]:
        """Return the events that may be delivered now. Raises ConverseError."""

    @abc.abstractmethod
    async def give_up(self) -> list[StreamEvent]:
        """Return what may be delivered of an answer that has failed. Raises ConverseError."""

    @property
    @abc.abstractmethod
    def note(self) -> Loss:
        """The note that a stream is held back."""

    def _add(self, losses: Iterable[Loss]) -> None:
        self._losses.update(dict.fromkeys(losses))

    def _list_new_losses(self) -> list[StreamEvent]:
        new = list(self._losses)[self._reported :]
        self._reported = len(self._losses)
        return [LossEvent(loss=loss) for loss in new]

    def _hide(self, event: NativeEvent) -> None:
        """Report that a vendor's event is not delivered: its texts are unknown."""
        reason = f"the guard {self._active.name!r} cannot examine the vendor's own events"
        self._add((Loss(kind=LossKind.DROPPED, path="stream", reason=reason, is_routine=True),))


def watch_stream(active: ActiveGuard, inspection: Inspection) -> StreamGuard:
    """Return the examination of one answer by a guard."""
    window = active.guard.window
    if window is None:
        return WholeStreamGuard(active, inspection)
    return WindowedStreamGuard(active, inspection, max(window, 1))


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
        if event.channel not in _WINDOWED:
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


class WholeStreamGuard(StreamGuard):
    """Holds back the whole answer, and examines all its texts together."""

    def __init__(self, active: ActiveGuard, inspection: Inspection) -> None:
        super().__init__(active, inspection)
        self._held: list[StreamEvent] = []

    @property
    def note(self) -> Loss:
        """The note that a stream is held back."""
        reason = f"the guard {self._active.name!r} holds back the whole answer"
        return Loss(kind=LossKind.COERCED, path="stream", reason=reason, is_routine=True)

    async def feed(self, events: Sequence[StreamEvent]) -> list[StreamEvent]:
        """Return the events that may be delivered now. Raises ConverseError."""
        ready: list[StreamEvent] = []
        for event in events:
            match event:
                case ContentStartedEvent() | ContentDeltaEvent() | ContentCitedEvent():
                    self._held.append(event)
                case ContentFinishedEvent():
                    self._held.append(event)
                case NativeEvent():
                    self._hide(event)
                case ResponseFinishedEvent():
                    ready += await self._examine(event)
                case _:
                    ready.append(event)
        return ready

    async def give_up(self) -> list[StreamEvent]:
        """Return the events so far, but no incomplete calls; none if the guard finds something."""
        held, self._held = self._held, []
        finished = {each.index for each in held if isinstance(each, ContentFinishedEvent)}
        ready = [each for each in held if not _is_incomplete(each, finished)]
        texts = tuple(filter(str.strip, dict.fromkeys(_list_texts(ready))))
        if texts and await self._active.examine(attrs.evolve(self._inspection, texts=texts)):
            return []
        return ready

    async def _examine(self, last: ResponseFinishedEvent) -> list[StreamEvent]:
        held, self._held = self._held, []
        finished = tuple(each for each in held if isinstance(each, ContentFinishedEvent))
        items = tuple((each.index, each.item) for each in finished)
        rewrite: Callable[[ChangeText], Any] = partial(_rewrite_items, items)
        translation: Translation[Any] = await redact_texts(self._active, rewrite, self._inspection)
        if translation.value is items:
            return [*self._list_new_losses(), *held, last]
        self._add(translation.losses)
        pairs = zip(translation.value, items, strict=True)
        changed = {index: item for (index, item), (_, old) in pairs if item is not old}
        events: list[StreamEvent] = []
        for event in held:
            index = getattr(event, "index", None)
            if index not in changed or isinstance(event, ContentStartedEvent):
                events.append(event)
            elif isinstance(event, ContentFinishedEvent):
                item = changed[event.index]
                events += list_deltas(event.index, item)
                events.append(ContentFinishedEvent(index=event.index, item=item))
        return [*self._list_new_losses(), *events, attrs.evolve(last, native=None)]


def _is_incomplete(event: StreamEvent, finished: Container[int]) -> bool:
    """Return whether a piece is of arguments or a signature that have no end."""
    if not isinstance(event, ContentDeltaEvent) or event.channel == "data":
        return False
    return event.channel not in _WINDOWED and event.index not in finished


def _list_texts(events: Iterable[StreamEvent]) -> list[str]:
    """Return all texts of events: those of pieces, joined, of finished items and of citations."""
    texts: list[str] = []
    pieces: dict[tuple[int, str], list[str]] = {}

    def collect(path: str, text: str) -> str:
        texts.append(text)
        return text

    for event in events:
        match event:
            case ContentDeltaEvent() if event.channel != "data":
                pieces.setdefault((event.index, event.channel), []).append(event.text)
            case ContentFinishedEvent():
                rewrite_item(event.item, "", collect)
            case ContentCitedEvent():
                rewrite_citation(event.citation, "", collect)
            case _:
                pass
    return [*map("".join, pieces.values()), *texts]


def _rewrite_items(items: tuple[Any, ...], change: ChangeText) -> tuple[Any, ...]:
    return rewrite_all(items, "contents", _rewrite_indexed, change)


def _rewrite_indexed(pair: tuple[int, Any], path: str, change: ChangeText) -> tuple[int, Any]:
    index, item = pair
    new = rewrite_item(item, f"contents[{index}]", change)
    return pair if new is item else (index, new)


def list_deltas(index: int, item: Any) -> list[ContentDeltaEvent]:
    """Return the texts of a finished item as deltas, one for each channel."""
    match item:
        case TextualContent():
            return [ContentDeltaEvent(index, item.text)] if item.text else []
        case RefusalContent():
            return [ContentDeltaEvent(index, item.text, kind="refusal")] if item.text else []
        case ReasoningContent():
            texts: list[tuple[Channel, str]] = [
                ("text", item.text),
                ("summary", "".join(item.summary)),
            ]
            return [
                ContentDeltaEvent(index, text, channel, "reasoning")
                for channel, text in texts
                if text
            ]
        case InvocationCanister():
            return [ContentDeltaEvent(index, item.arguments, "arguments", "invocation")]
        case _:
            return []


class GuardedSource:
    """An event source over the stream of another model, whose events guards examine.

    Args:
        stream: The stream.
        guards: The guards, in order.
        assembler: The assembler of the guarded answer.
    """

    def __init__(
        self, stream: AsyncStream, guards: Sequence[StreamGuard], assembler: Assembler
    ) -> None:
        self._stream = stream
        self._guards = guards
        self._assembler = assembler
        self._events: AsyncIterator[StreamEvent] | None = None
        # Events of a provider's own class of streams may lack the items that are examined.
        self._completer = Assembler(provider=assembler.provider, model=assembler.model)
        self._error: ConverseError | None = None

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Return the next events that may be delivered; ``None`` at the end."""
        while self._error is None:
            try:
                events = await self._receive()
            except ConverseError as error:
                self._error = error
                if rest := await self._give_up():
                    return rest
                break
            if events is None:
                return None
            for guard in self._guards:
                events = await guard.feed(events)
            if events:
                return events
        assert self._error is not None
        raise self._error

    async def _receive(self) -> Sequence[StreamEvent] | None:
        """Return the events of one read, without a failure, which the stream raises next."""
        if isinstance(self._stream, ResponseStream):
            batch: Sequence[StreamEvent] | None = await self._stream.receive()
        else:  # a provider with another class of streams
            if self._events is None:
                self._events = aiter(self._stream)
            event = await anext(self._events, None)
            if event is not None and not isinstance(event, ResponseFailedEvent):
                event = self._completer.feed(event)
            batch = None if event is None else (event,)
        for event in batch or ():
            if isinstance(event, ResponseFinishedEvent) and event.response is not None:
                self._assembler.summaries = event.response.metadata.summaries
        if batch is None or not isinstance(batch[-1] if batch else None, ResponseFailedEvent):
            return batch
        return batch[:-1]

    async def _give_up(self) -> list[StreamEvent]:
        """Return what the guards held back of an answer that has failed."""
        events: list[StreamEvent] = []
        try:
            for guard in self._guards:
                events = [*await guard.feed(events), *await guard.give_up()]
        except ConverseError:  # the first error matters more; nothing is delivered
            return []
        return events

    def detach(self, when: Callable[[], bool]) -> None:
        """Let the vendor continue the response in the background."""
        detach(self._stream, when)

    async def close(self) -> None:
        """Stop the response."""
        await self._stream.close()
