"""Streamed answers in protocols whose contents come one after the other.

Our contents may overlap: many vendors end a text only at the end of the answer. Here the content
that began first is streamed. The next content ends it, once it has data, unless it must not be
ended early: media and results have no data before they are complete, and a call is not ended before
its arguments are complete.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs
import msgspec

from vibe_llms.dialects.client_answers import StreamWriter
from vibe_llms.dialects.signatures import is_wrapped, wrap_item, wrap_start
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import Owner, Usage
from vibe_llms.messages.contents import ReasoningContent
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Response

_LEAVABLE: Final = frozenset({"text", "refusal", "reasoning"})
"""Kinds of content that may be ended early when another begins."""

_CARRIED: Final = 1_000_000
"""Index of a content that does not belong to the answer."""

ContentEvent = ContentDeltaEvent | ContentCitedEvent | ContentFinishedEvent


class SequentialWriter(StreamWriter):
    """Passes the contents of a response one by one, in the order in which they began.

    A dialect writes them. A content that continues after another becomes a content of its own,
    which is reported as a loss. Nothing is written before a content begins.
    """

    PROTOCOL: ClassVar[str]
    """The dialect's protocol: its native data need no envelope."""

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        self._live: int | None = None
        """The content that is being streamed."""
        self._queue: dict[int, list[ContentEvent]] = {}
        """Waiting events, by content; the live one is the first."""
        self._starts: dict[int, ContentStartedEvent] = {}
        self._arguments: dict[int, list[str]] = {}
        self._usage: Usage | None = None
        self._has_begun = False
        self._divided: list[Loss] = []
        self._left: set[int] = set()
        """Contents that were ended early."""
        self._early: set[int] = set()
        """Calls whose signatures were sent before them."""
        self._carriers: dict[int, ReasoningContent] = {}
        """Empty reasoning with the signatures of other contents; sent at the end."""

    def write(self, event: StreamEvent) -> bytes:
        """Return the frames for an event; see :class:`.StreamWriter`."""
        match event:
            case ContentDeltaEvent() | ContentCitedEvent() | ContentFinishedEvent():
                return self._ensure_begun() + self._take(event)
            case ContentStartedEvent():
                self._starts[event.index] = event
                self._queue[event.index] = []
                return self._ensure_begun() + self._advance()
            case ResponseStartedEvent():
                self._response_id = self._response_id or event.response_id
                self._model = self._model or event.model or ""
            case UsageEvent():
                self._usage = event.usage
            case ResponseFinishedEvent(response=Response() as response):
                begun = self._ensure_begun()
                return begun + self._write_late_carriers() + self._finish(response)
            case ResponseFailedEvent():
                return self.fail(event.error)
            case _:
                pass
        return b""

    def _ensure_begun(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        return self._write_beginning()

    def _take(self, event: ContentEvent) -> bytes:
        index = event.index
        if isinstance(event, ContentDeltaEvent) and event.channel == "arguments":
            self._arguments.setdefault(index, []).append(event.text)
        if index == self._live and not self._queue[index]:
            if not isinstance(event, ContentFinishedEvent):
                return self._continue(event)
            self._leave(index)
            return self._close(event) + self._advance()
        if index in self._queue:
            self._queue[index].append(event)
        elif isinstance(event, ContentDeltaEvent) and event.channel in ("text", "summary"):
            self._resume(event)
        elif isinstance(event, ContentFinishedEvent) and index in self._left:
            self._wrap_late(event)
        return self._advance()

    def _wrap_late(self, event: ContentFinishedEvent) -> None:
        """Keep the signature of a content that ended before its signature was known."""
        wrapped = wrap_item(event.item, self.PROTOCOL, self.provider)
        if isinstance(wrapped.item, ReasoningContent) and is_wrapped(wrapped.item.signature):
            self._carriers[event.index] = ReasoningContent(signature=wrapped.item.signature)
        elif wrapped.carrier is not None:
            self._carriers[event.index] = wrapped.carrier

    def _open(self, start: ContentStartedEvent) -> bytes:
        """Return the first frames of a content, after those of its signature."""
        carrier = wrap_start(start, self.PROTOCOL, self.provider)
        if carrier is None:
            return self._begin(start)
        self._early.add(start.index)
        return self._write_carrier(carrier) + self._begin(start)

    def _close(self, event: ContentFinishedEvent) -> bytes:
        """Return the last frames of a content; keep its signature for the end."""
        wrapped = wrap_item(event.item, self.PROTOCOL, self.provider)
        if wrapped.carrier is not None and event.index not in self._early:
            self._carriers[event.index] = wrapped.carrier
        if wrapped.item is not event.item:
            event = attrs.evolve(event, item=wrapped.item)
        return self._end(event)

    def _write_late_carriers(self) -> bytes:
        """Return the frames of signatures that became known late."""
        return b"".join(
            self._write_carrier(carrier) for _, carrier in sorted(self._carriers.items())
        )

    def _write_carrier(self, carrier: ReasoningContent) -> bytes:
        """Return the frames of empty reasoning with a signature."""
        begun = self._begin(ContentStartedEvent(index=_CARRIED, kind="reasoning"))
        return begun + self._end(ContentFinishedEvent(index=_CARRIED, item=carrier))

    def _resume(self, event: ContentDeltaEvent) -> None:
        self._queue[event.index] = [event]
        reason = "it continues after other content, as a separate content"
        loss = Loss(kind=LossKind.COERCED, path=f"contents[{event.index}]", reason=reason)
        if loss not in self._divided:
            self._divided.append(loss)
            self.losses.append(loss)

    def _advance(self) -> bytes:
        """Pass on everything possible; return its frames."""
        written: list[bytes] = []
        while self._queue:
            index = next(iter(self._queue))
            if index != self._live:
                self._live = index
                written.append(self._open(self._starts[index]))
            events, self._queue[index] = self._queue[index], []
            for event in events:
                if isinstance(event, ContentFinishedEvent):
                    self._leave(index)
                    written.append(self._close(event))
                else:
                    written.append(self._continue(event))
            if index not in self._queue:
                continue
            if not self._is_pushed() or not self._can_leave(index):
                break
            self._leave(index)
            self._left.add(index)
            written.append(self._close(ContentFinishedEvent(index=index)))
        return b"".join(written)

    def _leave(self, index: int) -> None:
        del self._queue[index]
        self._live = None

    def _is_pushed(self) -> bool:
        """Return whether a waiting content has data."""
        _, *waiting = self._queue.items()
        return any(
            bool(events) or self._starts[index].kind == "invocation" for index, events in waiting
        )

    def _can_leave(self, index: int) -> bool:
        start = self._starts[index]
        if start.kind != "invocation" or start.form != "json":
            return start.kind in _LEAVABLE
        if start.owner is not Owner.OURS:
            return False
        try:
            msgspec.json.decode("".join(self._arguments.get(index, ())))
        except UNREADABLE:
            return False
        return True

    @abc.abstractmethod
    def _write_beginning(self) -> bytes:
        """Return the frames before any content."""

    @abc.abstractmethod
    def _begin(self, start: ContentStartedEvent) -> bytes:
        """Return the frames with which a content begins."""

    @abc.abstractmethod
    def _continue(self, event: ContentDeltaEvent | ContentCitedEvent) -> bytes:
        """Return the frames that continue the current content."""

    @abc.abstractmethod
    def _end(self, event: ContentFinishedEvent) -> bytes:
        """Return the frames that end it; there is no item if it is ended early."""

    @abc.abstractmethod
    def _finish(self, response: Response) -> bytes:
        """Return the last frames, and set the losses to those of the whole answer."""
