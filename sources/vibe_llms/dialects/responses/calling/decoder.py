"""What a vendor answers, streamed or whole, as normalized stream events: a pure machine.

Each item of a response is a group of contents. While it comes, its deltas are passed on; when it
is complete the vendor sends all of it once more, and that copy counts. A whole response goes the
same way, without the deltas in between, so that both give the same canisters. Items are told
apart by their place in the response: some vendors change their ids on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.decoding import (
    Explaining,
    decode_json,
    produce_emptiness,
    produce_truncation,
)
from vibe_llms.dialects.responses.calling.endings import ResponseEnding, read_ending
from vibe_llms.dialects.responses.calling.errors import produce_error
from vibe_llms.dialects.responses.calling.progress import DELTAS, DONES, NOWHERE, SILENT, ItemsTable
from vibe_llms.dialects.responses.calling.usage import normalize_usage
from vibe_llms.dialects.responses.calling.usual import read_usual
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    LossEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError, Stage

_TEXT_DELTA: Final = "response.output_text.delta"
_TEXT_DELTA_MARK: Final = b'"response.output_text.delta"'
_BEGINNINGS: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDINGS: Final = frozenset(
    {"response.completed", "response.failed", "response.incomplete", "response.cancelled"}
)


class _TextDelta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The usual chunk: by far the most frequent one."""

    type: str
    delta: str
    output_index: int = NOWHERE
    content_index: int = 0
    item_id: str = ""
    logprobs: Any = None
    obfuscation: str = ""
    sequence_number: int = 0


_decode_text_delta: Final = msgspec.json.Decoder(_TextDelta).decode


class Decoder:
    """Turns the events of a stream, or one whole response, into ours.

    Args:
        provider: Named in errors.
        model: That was asked; named in errors.
    """

    def __init__(self, *, provider: str, model: str = "") -> None:
        self._provider = provider
        self._model = model
        self._explaining = Explaining(provider, "an event")
        self._items = ItemsTable()
        self._texts = self._items.texts
        self._begun = False
        self._ending: ResponseEnding | None = None
        self._finished = False
        self._losses: tuple[LossEvent, ...] = ()

    def decode(self, data: bytes | Mapping[str, Any], event: str = "") -> list[StreamEvent]:
        """Returns what one event of the vendor's means.

        Args:
            data: The event, or the bytes of its JSON.
            event: Its kind, where the frame around it said it; what the data say counts more.

        Raises:
            ConverseError: It makes no sense, or tells of an error.
        """
        if event == _TEXT_DELTA or (not event and _is_text_delta(data)):
            try:
                chunk = _decode_text_delta(data)  # type: ignore[arg-type]
            except (msgspec.DecodeError, TypeError, UnicodeDecodeError, RecursionError):
                pass  # not the usual one
            else:
                growing = self._texts.get((chunk.output_index, chunk.content_index))
                if growing is not None and chunk.type == _TEXT_DELTA:
                    growing.quick += len(chunk.delta)
                    return [ContentDeltaEvent(growing.index, chunk.delta)]
        return self._run(lambda: self._read_event(self._parse(data), event))

    @property
    def is_complete(self) -> bool:
        """Whether the vendor has said that the response is complete."""
        return self._ending is not None

    read_usual = staticmethod(read_usual)

    def decode_response(self, body: bytes | Mapping[str, Any]) -> list[StreamEvent]:
        """Returns the events of a whole response, to their end. Raises ConverseError."""
        events = self._run(lambda: self._read_response(self._parse(body)))
        return [*events, *self.finish()]

    def finish(self) -> list[StreamEvent]:
        """Returns the last events. To be called when the stream has ended.

        Raises:
            StreamTruncatedError: The vendor has not said that the response is complete.
        """
        if self._finished:
            return []
        if self._ending is None:
            raise produce_truncation(self._provider)
        self._finished = True
        return [
            ResponseFinishedEvent(
                stop_reason=self._ending.stop_reason,
                native_stop_reason=self._ending.word,
                native=self._ending.native,
            )
        ]

    def _parse(self, data: bytes | Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Returns the event; None where the frame holds only a sign that it is the last."""
        if not isinstance(data, bytes):
            return data
        if data.strip() == b"[DONE]":
            return None
        parsed: Mapping[str, Any]
        parsed, self._losses = decode_json(data)
        return parsed

    def _run(self, read: Any) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        self._items.events = events
        self._losses = ()
        with self._explaining:
            read()
            events += self._losses
        return events

    def _read_event(self, event: Mapping[str, Any] | None, word: str) -> None:
        if event is None:
            return
        kind = event.get("type") or word
        if kind in DELTAS:
            self._items.add_delta(event, *DELTAS[kind])
        elif kind in DONES:
            self._items.complete_delta(event, *DONES[kind])
        elif kind in SILENT:
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
            self._end(event["response"], event)
        elif kind == "error" or (event.get("error") and not str(kind).startswith("response.")):
            raise produce_error(event, provider=self._provider, model=self._model)
        elif kind.startswith("response.audio."):
            self._items.add_sound(kind, event)
        else:
            self._items.pass_on(str(kind), event)

    def _begin(self, response: Mapping[str, Any]) -> None:
        if self._begun:
            return
        self._begun = True
        self._items.events.append(
            ResponseStartedEvent(
                response_id=response.get("id") or None, model=response.get("model") or None
            )
        )

    def _read_response(self, response: Mapping[str, Any] | None) -> None:
        if response is None or ("output" not in response and not response.get("error")):
            raise ConverseError(
                detail=f"{self._provider} sent a body that is no response.", stage=Stage.DECODE
            )
        self._end(response, {})

    def _end(self, response: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """Takes in the response as a whole: what had not come bit by bit comes now.

        Args:
            event: That it came in; some vendors say more there.
        """
        if response.get("error") or response.get("status") == "failed":
            raise produce_error(response, provider=self._provider, model=self._model)
        self._begin(response)
        self._items.settle(response.get("output") or ())
        if response.get("usage"):
            self._items.events.append(UsageEvent(usage=normalize_usage(response["usage"])))
        ending = read_ending(response, self._items.outline, event)
        if self._items.is_empty and ending.word in ("completed", "incomplete"):
            raise produce_emptiness(self._provider)
        self._ending = ending


def _is_text_delta(data: bytes | Mapping[str, Any]) -> bool:
    return isinstance(data, bytes) and _TEXT_DELTA_MARK in data
