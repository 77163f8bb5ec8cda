"""Decoder of another vibe-llms's answer, streamed or not, to the original events."""

from __future__ import annotations

import typing
from typing import Any, Final, NoReturn, cast

import attrs
import msgspec

from vibe_llms.dialects.converse.calling.answers import list_events
from vibe_llms.dialects.converse.calling.errors import produce_error
from vibe_llms.dialects.converse.tables import AnswerBody, Ending
from vibe_llms.dialects.converse.versions import ensure_answer_version
from vibe_llms.dialects.decoding import ResponseDecoder
from vibe_llms.events.codec import AnyEvent, decode_event
from vibe_llms.events.stream import (
    Channel,
    ContentDeltaEvent,
    ContentKind,
    LossEvent,
    ResponseFinishedEvent,
    RetryEvent,
    StreamEvent,
)
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.codec.decoding import read_json, read_tree
from vibe_llms.messages.requests import Request, Response, ResponseMetadata


class _Piece(msgspec.Struct, tag="content.delta", forbid_unknown_fields=True, gc=False):
    index: int
    text: str
    channel: Channel = "text"
    kind: ContentKind = "text"


_decode_piece: Final = msgspec.json.Decoder(_Piece).decode


class Decoder(ResponseDecoder):
    """Decodes the events of a stream, or one complete answer.

    The last event has a response without canisters: only the metadata of the other side. The number
    of attempts excludes attempts that were reported as retry events.

    Args:
        provider: The provider, for errors.
        model: The model, for errors.
        request: The request, which the response includes.
    """

    frame = "an event"
    produce_error = staticmethod(produce_error)
    relays_errors = True
    """True if errors in an answer are passed on from the other side, not faults of the answer."""

    def __init__(self, *, provider: str, model: str = "", request: Request) -> None:
        super().__init__(provider=provider, model=model)
        self._request = request
        self._reported_losses: list[object] = []
        self._reported_retries = 0
        self._last: ResponseFinishedEvent | None = None

    def decode(self, data: bytes, event: str = "") -> list[StreamEvent]:
        """Return the events of one event of the stream.

        Args:
            event: Name of the event in the stream.

        Raises:
            ConverseError: It is invalid, has another version, or is the error that ended the
                response.
        """
        if event == "content.delta" and self._begun:
            try:
                piece = _decode_piece(data)
            except UNREADABLE:
                pass  # the general decoder reports the error
            else:
                return [ContentDeltaEvent(piece.index, piece.text, piece.channel, piece.kind)]
        with self._explaining:
            self._read(data, event)
        return self._take_events()

    def decode_response(self, body: bytes) -> list[StreamEvent]:
        """Return the events of a complete answer, to their end. Raises ConverseError."""
        with self._explaining:
            self._read_response(body)
        return [*self._take_events(), *self.finish()]

    def _read_response(self, response: bytes) -> None:
        self._ensure_version(response)
        answer: AnswerBody = read_json(response, AnswerBody)
        self._events += list_events(answer)
        origin = answer.metadata.origin
        last = ResponseFinishedEvent(
            stop_reason=origin.stop_reason,
            native_stop_reason=origin.native_stop_reason,
            native=answer.metadata.native,
        )
        self._complete(last, Ending(metadata=answer.metadata, losses=answer.losses))

    def _has_ended(self) -> bool:
        return self.is_complete

    def _is_empty(self) -> bool:
        return False  # the other side decides whether it is an answer

    def _end(self) -> ResponseFinishedEvent:
        assert self._last is not None  # complete only with it
        return self._last

    def _read(self, data: bytes, event: str) -> None:
        if not self._begun:
            self._ensure_version(data)
            self._begun = True
        match event or _decode_frame(data).type:
            case "converse":  # the first event has only the version
                pass
            case "response.finished":
                fields = msgspec.json.decode(data)
                ending: Ending = read_tree(fields.pop("response"), Ending, "$.response")
                self._complete(read_tree(fields, ResponseFinishedEvent), ending)
            case "response.failed":
                self._fail(msgspec.json.decode(data))
            case _:
                self._take(decode_event(data))

    def _take(self, event: AnyEvent) -> None:
        if not isinstance(event, typing.get_args(StreamEvent)):
            raise ValueError(f"{event.type} is not an event of a response")
        if isinstance(event, LossEvent):
            self._reported_losses.append(event.loss)
        elif isinstance(event, RetryEvent) and not event.resumes:
            self._reported_retries += 1
        self._events.append(cast(StreamEvent, event))

    def _complete(self, last: ResponseFinishedEvent, ending: Ending) -> None:
        """Process the end, and report the losses that had no event."""
        for loss in ending.losses:
            if loss in self._reported_losses:
                self._reported_losses.remove(loss)
            else:
                self._events.append(LossEvent(loss=loss))
        metadata: ResponseMetadata = ending.metadata
        metadata = attrs.evolve(
            metadata, attempts=max(metadata.attempts - self._reported_retries, 1)
        )
        response = Response(request=self._request, canisters=(), metadata=metadata)
        self._last = attrs.evolve(last, response=response)
        self.is_complete = True

    def _ensure_version(self, data: bytes) -> None:
        frame = _decode_frame(data)
        if frame.error is not None:  # of any version, or of a proxy in between
            self._fail(msgspec.json.decode(data))
        ensure_answer_version(frame.version, self._provider)

    def _fail(self, body: object) -> NoReturn:
        raise self.produce_error(body, provider=self._provider, model=self._model)


class _Frame(msgspec.Struct):
    version: Any = None
    error: Any = None
    type: str = ""


_decode_frame: Final = msgspec.json.Decoder(_Frame).decode
