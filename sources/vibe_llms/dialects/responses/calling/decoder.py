"""Decoder of answers, streamed or not, to normalized stream events. Does no I/O.

Each item of a response is a group of contents. While an item is streamed, its deltas are passed on.
At the end, the vendor sends a complete copy of the item, which is authoritative. A complete
response is decoded in the same way, without deltas, so both give equal canisters. Items are
identified by their index in the response, as some vendors change the ids during a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from vibe_llms.dialects.decoding import ResponseDecoder
from vibe_llms.dialects.responses.calling.endings import ResponseEnding, read_ending
from vibe_llms.dialects.responses.calling.errors import produce_error
from vibe_llms.dialects.responses.calling.progress import (
    DELTAS,
    DONES,
    NO_INDEX,
    REDUNDANT,
    ItemsTable,
)
from vibe_llms.dialects.responses.calling.simple_responses import (
    read_simple_response,
    read_simple_stream,
)
from vibe_llms.dialects.responses.calling.usage import normalize_usage
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.json_errors import UNREADABLE

_TEXT_DELTA: Final = "response.output_text.delta"
_TEXT_DELTA_MARK: Final = b'"response.output_text.delta"'
_BEGINNINGS: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDINGS: Final = frozenset(
    {"response.completed", "response.failed", "response.incomplete", "response.cancelled"}
)


class _TextDelta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Simple chunk: by far the most frequent one."""

    type: str
    delta: str
    output_index: int = NO_INDEX
    content_index: int = 0
    item_id: str = ""
    logprobs: Any = None
    obfuscation: str = ""
    sequence_number: int = 0


_decode_text_delta: Final = msgspec.json.Decoder(_TextDelta).decode


class Decoder(ResponseDecoder):
    """Decodes the events of a stream, or one complete response, to events of this library."""

    frame = "an event"
    produce_error = staticmethod(produce_error)

    def __init__(self, *, provider: str, model: str = "") -> None:
        super().__init__(provider=provider, model=model)
        self._items = ItemsTable(self._events)
        self._texts = self._items.texts
        self._ending: ResponseEnding | None = None

    def decode(self, data: bytes | Mapping[str, Any], event: str = "") -> list[StreamEvent]:
        """Return our events for one event of the vendor.

        Args:
            data: The event, or the bytes of its JSON.
            event: Name of the event in the stream; the type in the data has precedence.

        Raises:
            ConverseError: It is invalid, or reports an error.
        """
        # If events have no names, a look at the bytes decides whether to try the fast path.
        if event == _TEXT_DELTA or (not event and _is_text_delta(data)):
            try:
                chunk = _decode_text_delta(data)  # type: ignore[arg-type]
            except (*UNREADABLE, TypeError):
                pass  # not a simple one
            else:
                streamed = self._texts.get((chunk.output_index, chunk.content_index))
                if streamed is not None and chunk.type == _TEXT_DELTA:
                    streamed.fast_count += len(chunk.delta)  # the final copy is compared with it
                    return [ContentDeltaEvent(streamed.index, chunk.delta)]
        return self._receive(data, partial(self._read_event, event_name=event))

    read_simple_response = staticmethod(read_simple_response)
    read_simple_stream = staticmethod(read_simple_stream)

    def _has_ended(self) -> bool:
        return self._ending is not None

    def _is_empty(self) -> bool:
        ending = self._ending
        # A cancelled or background response explains why there is no content.
        is_explained = ending is None or ending.native_reason not in ("completed", "incomplete")
        return self._items.is_empty and not is_explained

    def _end(self) -> ResponseFinishedEvent:
        assert self._ending is not None
        return ResponseFinishedEvent(
            stop_reason=self._ending.stop_reason,
            native_stop_reason=self._ending.native_reason,
            native=self._ending.native,
        )

    def _read_event(self, event: Mapping[str, Any], event_name: str) -> None:
        kind = event.get("type") or event_name
        if kind in DELTAS:
            self._items.add_delta(event, *DELTAS[kind])
        elif kind in DONES:
            self._items.complete_delta(event, *DONES[kind])
        elif kind in REDUNDANT:
            return
        elif kind == "response.output_item.added":
            self._items.begin(event["item"], event.get("output_index"))
        elif kind == "response.output_item.done":
            self._items.finish(event["item"], event.get("output_index"))
        elif kind == "response.content_part.added":
            self._items.begin_part(event)
        elif kind == "response.output_text.annotation.added":
            self._items.cite(event)
        elif kind in _BEGINNINGS:
            self._begin(event["response"])
        elif kind in _ENDINGS:
            self._read_ending(event["response"], event)
        elif kind == "error" or (event.get("error") and not str(kind).startswith("response.")):
            self._fail(event)
        elif kind.startswith("response.audio."):
            self._items.add_audio(kind, event)
        else:
            self._items.pass_on(str(kind), event)

    def _begin(self, response: Mapping[str, Any]) -> None:
        if self._begun:
            return
        self._begun = True
        self._events.append(
            ResponseStartedEvent(
                response_id=response.get("id") or None, model=response.get("model") or None
            )
        )

    def _read_response(self, response: Mapping[str, Any]) -> None:
        if "output" not in response and not response.get("error"):
            raise ConverseError(
                detail=f"{self._provider} sent an invalid response.", stage=Stage.DECODE
            )
        self._read_ending(response, {})

    def _read_ending(self, response: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """Process the whole response: contents that were not streamed are added now.

        Args:
            event: The event around it; some vendors put more fields there.
        """
        if response.get("error") or response.get("status") == "failed":
            self._fail(response)
        self._begin(response)
        self._items.settle(response.get("output") or ())
        if response.get("usage"):
            self._events.append(UsageEvent(usage=normalize_usage(response["usage"])))
        self._ending = read_ending(response, self._items.outline, event)
        self.is_complete = True


def _is_text_delta(data: bytes | Mapping[str, Any]) -> bool:
    return isinstance(data, bytes) and _TEXT_DELTA_MARK in data
