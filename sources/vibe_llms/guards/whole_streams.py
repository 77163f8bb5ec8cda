"""Guards without a window: the whole answer is held back and examined."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import Any

import attrs

from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    NativeEvent,
    ResponseFinishedEvent,
    StreamEvent,
)
from vibe_llms.guards.active import ActiveGuard, ChangeText, redact_texts
from vibe_llms.guards.stream_guards import WINDOWED_CHANNELS, StreamGuard, list_deltas
from vibe_llms.guards.texts import (
    rewrite_all,
    rewrite_citation,
    rewrite_item,
)
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.plugins.specification.guards import Inspection


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
    return event.channel not in WINDOWED_CHANNELS and event.index not in finished


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
