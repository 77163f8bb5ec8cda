"""Streamed answers in protocols whose contents follow one after the other.

Our contents may overlap, as many vendors end a text only at the end of the answer. The content that
began first is streamed. As soon as the next content has data, the first one is ended, if that is
allowed: media and results have no data before they are complete, and a call is not ended before its
arguments are complete.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs
import msgspec

from vibe_llms.dialects.client_answers import StreamWriter
from vibe_llms.dialects.executions import ExecutionAdopter, seal_execution
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

_ENDABLE: Final = frozenset({"text", "refusal", "reasoning"})
"""Kinds of content that may be ended early when another content begins."""

_CARRIER_INDEX: Final = 1_000_000
"""Index of the contents that carry a signature and are not part of the answer."""

ContentEvent = ContentDeltaEvent | ContentCitedEvent | ContentFinishedEvent


class SequentialWriter(StreamWriter):
    """Writes the contents of a response one after the other, in the order of their beginnings.

    A dialect writes each content. A content that continues after another one becomes a separate
    content, which is reported as a loss. Nothing is written before a content begins.
    """

    PROTOCOL: ClassVar[str]
    """The dialect's protocol, whose native data need no envelope."""

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        self._live: int | None = None
        """Index of the content that is being streamed."""
        self._queue: dict[int, list[ContentEvent]] = {}
        """Waiting events, by the index of their content. The live content is the first one."""
        self._starts: dict[int, ContentStartedEvent] = {}
        self._arguments: dict[int, list[str]] = {}
        self._usage: Usage | None = None
        self._has_begun = False
        self._continuation_losses: list[Loss] = []
        self._ended_early: set[int] = set()
        """Contents that were ended early."""
        self._signed_early: set[int] = set()
        """Calls whose signatures were sent before the calls."""
        self._adopter: ExecutionAdopter | None = None
        """Writes the calls that another vendor executed, if the protocol can represent them."""
        self._carriers: dict[int, ReasoningContent] = {}
        """Empty reasoning with signatures of contents that have ended; sent at the end."""

    def write(self, event: StreamEvent) -> bytes:
        """Return the frames for an event; see :class:`.StreamWriter`."""
        match event:
            case ContentDeltaEvent() | ContentCitedEvent() | ContentFinishedEvent():
                return self._ensure_begun() + self._accept(event)
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
                beginning = self._ensure_begun()
                return beginning + self._write_late_carriers() + self._finish(response)
            case ResponseFailedEvent():
                return self.fail(event.error)
            case _:
                pass
        return b""

    def _ensure_begun(self) -> bytes:
        """Return the frames before any content, if they were not written yet."""
        if self._has_begun:
            return b""
        self._has_begun = True
        return self._write_beginning()

    def _accept(self, event: ContentEvent) -> bytes:
        """Write an event of the live content; let events of other contents wait."""
        index = event.index
        if isinstance(event, ContentDeltaEvent) and event.channel == "arguments":
            self._arguments.setdefault(index, []).append(event.text)
        if index == self._live and not self._queue[index]:
            if not isinstance(event, ContentFinishedEvent):
                return self._continue(event)
            self._end_live(index)
            return self._close(event) + self._advance()
        if index in self._queue:
            self._queue[index].append(event)
        elif isinstance(event, ContentDeltaEvent) and event.channel in ("text", "summary"):
            self._continue_later(event)
        elif isinstance(event, ContentFinishedEvent) and index in self._ended_early:
            self._keep_late_signature(event)
        elif isinstance(event, ContentCitedEvent) and index in self._ended_early:
            self._report_late_citation(event)
        return self._advance()

    def _report_late_citation(self, event: ContentCitedEvent) -> None:
        reason = "it came after its text had ended"
        loss = Loss(kind=LossKind.DROPPED, path=f"contents[{event.index}].citations", reason=reason)
        self._continuation_losses.append(loss)
        self.losses.append(loss)

    def _keep_late_signature(self, event: ContentFinishedEvent) -> None:
        """Keep the signature of a content that ended before its signature was known."""
        wrapped = wrap_item(event.item, self.PROTOCOL, self.provider)
        if isinstance(wrapped.item, ReasoningContent) and is_wrapped(wrapped.item.signature):
            self._carriers[event.index] = ReasoningContent(signature=wrapped.item.signature)
        elif wrapped.carrier is not None:
            self._carriers[event.index] = wrapped.carrier

    def _open(self, start: ContentStartedEvent) -> bytes:
        """Return the first frames of a content; if its signature is known, that comes first."""
        carrier = wrap_start(start, self.PROTOCOL, self.provider)
        if carrier is None:
            return self._begin(start)
        self._signed_early.add(start.index)
        return self._write_carrier(carrier) + self._begin(start)

    def _close(self, event: ContentFinishedEvent) -> bytes:
        """Return the last frames of a content; keep its signature for the end."""
        if self._adopter is not None:
            adopted = self._adopter.adopt(event.item)
            if adopted is not event.item:
                carrier = seal_execution(event.item, self.provider)  # type: ignore[arg-type]
                if carrier is not None:
                    self._carriers[event.index] = carrier
                event = attrs.evolve(event, item=adopted)
        wrapped = wrap_item(event.item, self.PROTOCOL, self.provider)
        if wrapped.carrier is not None and event.index not in self._signed_early:
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
        beginning = self._begin(ContentStartedEvent(index=_CARRIER_INDEX, kind="reasoning"))
        return beginning + self._end(ContentFinishedEvent(index=_CARRIER_INDEX, item=carrier))

    def _continue_later(self, event: ContentDeltaEvent) -> None:
        """Let a content wait that continues after it was ended early; record the loss."""
        self._queue[event.index] = [event]
        reason = "it continues after other content, as a separate content"
        loss = Loss(kind=LossKind.COERCED, path=f"contents[{event.index}]", reason=reason)
        if loss not in self._continuation_losses:
            self._continuation_losses.append(loss)
            self.losses.append(loss)

    def _advance(self) -> bytes:
        """Write all events that can be written now; return their frames."""
        frames: list[bytes] = []
        while self._queue:
            index = next(iter(self._queue))
            if index != self._live:
                self._live = index
                frames.append(self._open(self._starts[index]))
            events, self._queue[index] = self._queue[index], []
            for event in events:
                if isinstance(event, ContentFinishedEvent):
                    self._end_live(index)
                    frames.append(self._close(event))
                else:
                    frames.append(self._continue(event))
            if index not in self._queue:
                continue
            if not self._is_another_waiting() or not self._can_end_early(index):
                break
            self._end_live(index)
            self._ended_early.add(index)
            frames.append(self._close(ContentFinishedEvent(index=index)))
        return b"".join(frames)

    def _end_live(self, index: int) -> None:
        del self._queue[index]
        self._live = None

    def _is_another_waiting(self) -> bool:
        """Return whether another content with data is waiting."""
        _, *waiting = self._queue.items()
        return any(
            any(map(_has_data, events)) or self._starts[index].kind == "invocation"
            for index, events in waiting
        )

    def _can_end_early(self, index: int) -> bool:
        """Return whether a content may be ended now; a call only with complete arguments."""
        start = self._starts[index]
        if start.kind != "invocation" or start.form != "json":
            return start.kind in _ENDABLE
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
        """Return the frames that end the current content; without an item if it is ended early."""

    @abc.abstractmethod
    def _finish(self, response: Response) -> bytes:
        """Return the last frames, and set the losses to those of the whole answer."""


def _has_data(event: ContentEvent) -> bool:
    """Return whether an event is more than the empty text that carries a signature."""
    return not isinstance(event, ContentDeltaEvent) or bool(event.text)
