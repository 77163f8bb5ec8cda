"""Decoding of vendors' JSON, and the part of decoders that all dialects share."""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NoReturn

import msgspec

from vibe_llms.events.stream import LossEvent, ResponseFinishedEvent, StreamEvent
from vibe_llms.exceptions import ConverseError, Stage, StreamTruncatedError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.losses import Loss, LossKind

_ESCAPE: Final = re.compile(
    rb"\\(?:(u[dD][89abAB]..\\u[dD][c-fC-F]..)|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""Any escape. The first group matches a surrogate pair, the second one a lone surrogate."""

_CUT_OFF_PAIR: Final = re.compile(rb'\\u[dD][89abAB][0-9a-fA-F]{2}"')
"""The first half of a surrogate pair at the end of a text."""

_DECODING_ERRORS: Final = (
    msgspec.DecodeError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
_LOSS: Final = LossEvent(
    loss=Loss(
        kind=LossKind.COERCED,
        path="response",
        reason="half a character (a lone UTF-16 surrogate) was replaced by U+FFFD",
    )
)


def decode_json(data: bytes) -> tuple[Any, tuple[LossEvent, ...]]:
    r"""Decode JSON; return the data, and the losses.

    If a model is stopped within a character, some vendors write half of it, such as ``"\ud83d"``.
    This is valid JSON, but not a valid text, so the half is replaced by U+FFFD.

    Raises:
        msgspec.DecodeError: It is not JSON.
        UnicodeDecodeError: The data are not UTF-8.
        RecursionError: The data are nested too deeply.
    """
    try:
        return msgspec.json.decode(data), ()
    except msgspec.DecodeError:
        bytes(data).decode()  # since msgspec 0.23, its own error does not say where
        # Search for lone surrogates only after a failure: they are rare, and a search takes time.
        repaired = repair_surrogates(data)
        if repaired == data:
            raise
        return msgspec.json.decode(repaired), (_LOSS,)


def is_blank(value: object) -> bool:
    """Return whether a value is empty: null, or containing only empty values."""
    if isinstance(value, Mapping):
        return all(map(is_blank, value.values()))
    return all(map(is_blank, value)) if isinstance(value, list) else not value


def read_text(value: object) -> str | None:
    """Return a text that is not empty; ``None`` for any other value."""
    return value if isinstance(value, str) and value else None


@frozen
class Explaining:
    """Context manager that converts errors of decoding an invalid frame to our errors.

    A class, since a generator function would take 5% of the time of a small answer.

    Args:
        provider: The sender.
        what: Name of the decoded data, for the error.
    """

    provider: str
    what: str = "a chunk"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, _DECODING_ERRORS) and not isinstance(error, ConverseError):
            raise ConverseError(
                detail=f"{self.provider} sent {self.what} that is invalid: {error!r}.",
                stage=Stage.DECODE,
            ) from error


class ResponseDecoder(abc.ABC):
    """Decodes the frames of one response, or all of it; see :class:`.Decoder`.

    A dialect decodes them, and adds the events to ``_events``.

    Args:
        provider: The provider, for errors.
        model: The model, for errors.

    Attributes:
        is_complete: Whether the vendor has completed the response.
    """

    frame: ClassVar[str] = "a chunk"
    """The name of one frame, in errors."""

    ends_by_mark: ClassVar[bool] = False
    """True if the end mark of a stream may be the only sign that its response is complete."""

    produce_error: ClassVar[Callable[..., ConverseError]]
    """Makes the exception for an error of the vendor."""

    def __init__(self, *, provider: str, model: str = "") -> None:
        self._provider = provider
        self._model = model
        self._explaining = Explaining(provider, self.frame)
        self._events: list[StreamEvent] = []
        self._begun = False
        self._finished = False
        self.is_complete = False
        # A frame that ends within a character, and the function that reads it.
        self._waiting_frame: tuple[bytes, Callable[[Any], None]] | None = None

    def decode_response(self, body: Any) -> list[StreamEvent]:
        """Return the events of a complete response. Raises ConverseError."""
        return [*self._read_data(body, self._read_response), *self.finish()]

    def finish(self) -> list[StreamEvent]:
        """Return the last events. Call it when the stream has ended.

        Raises:
            StreamTruncatedError: The vendor has not completed the response.
            ConverseError: There is neither content nor a reason. An empty response with a reason (a
                filter, a limit, a model that had nothing to add) is valid.
        """
        if self._finished:
            return []
        if self._waiting_frame is not None:
            return [*self._read_waiting_frame(), *self.finish()]
        if not self._has_ended():
            raise StreamTruncatedError(
                detail=f"The stream of {self._provider} ended before its response was complete.",
                remedy="The received part is kept. Send the request again.",
            )
        if self._is_empty():
            raise ConverseError(
                detail=f"{self._provider} sent an empty response, without a reason.",
                remedy="Try again. If it persists, the server may use another protocol.",
                stage=Stage.DECODE,
            )
        self._finished = True
        with self._explaining:
            self._events.append(self._end())
        return self._take_events()

    def _receive(self, data: Any, read: Callable[[Any], None]) -> list[StreamEvent]:
        """Return the events of data, or of the bytes of their JSON."""
        # Some gateways end every stream with this marker.
        if isinstance(data, bytes) and data.strip() == b"[DONE]":
            self.is_complete = self.is_complete or self.ends_by_mark
            return []
        if isinstance(data, bytes) and find_cut_off_pair(data) is not None:
            # The next frame may begin with the other half. So let this frame wait, and pass the
            # next one to `_join` instead of the dialect's own `decode`.
            self._waiting_frame = data, read
            self.decode = self._join
            return []
        return self._read_data(data, read)

    def _join(self, data: Any, event: str = "") -> list[StreamEvent]:
        """Return the events of the waiting frame and of the next one, with the character joined."""
        if isinstance(data, bytes) and self._waiting_frame is not None:
            first, read = self._waiting_frame
            joined = join_frames(first, data)
            if joined is not None:
                self._waiting_frame, (first, data) = (joined[0], read), joined
        events = self._read_waiting_frame()
        return [*events, *self.decode(data, event)]

    def _read_waiting_frame(self) -> list[StreamEvent]:
        """Return the events of the waiting frame."""
        assert self._waiting_frame is not None
        (data, read), self._waiting_frame = self._waiting_frame, None
        del self.__dict__["decode"]
        return self._read_data(data, read)

    def _read_data(self, data: Any, read: Callable[[Any], None]) -> list[StreamEvent]:
        with self._explaining:
            fields, losses = decode_json(data) if isinstance(data, bytes) else (data, ())
            read(fields)
            self._events += losses
        return self._take_events()

    def _take_events(self) -> list[StreamEvent]:
        events = self._events.copy()
        self._events.clear()  # not replaced, as other objects share this list
        return events

    def _fail(self, body: object) -> NoReturn:
        raise self.produce_error(body, provider=self._provider, model=self._model)

    @abc.abstractmethod
    def _read_response(self, response: Any) -> None:
        """Decode a complete response."""

    @abc.abstractmethod
    def _has_ended(self) -> bool:
        """Return whether the vendor has completed the response."""

    @abc.abstractmethod
    def _is_empty(self) -> bool:
        """Return whether there is neither content nor a reason."""

    @abc.abstractmethod
    def _end(self) -> ResponseFinishedEvent:
        """End the open contents; return the last event."""


def find_cut_off_pair(data: bytes) -> re.Match[bytes] | None:
    """Find the first half of a surrogate pair at the end of a text; ``None`` without one."""
    if b"\\u" not in data or _CUT_OFF_PAIR.search(data) is None:
        return None
    halves = (found for found in _ESCAPE.finditer(data) if found[2] is not None)
    return next((each for each in halves if _CUT_OFF_PAIR.match(data, each.start())), None)


def join_frames(first: bytes, second: bytes) -> tuple[bytes, bytes] | None:
    """Move the first half of a surrogate pair to the next frame.

    Returns:
        Both frames, or ``None`` if the second frame does not begin with the other half.
    """
    first_half, second_start, last = find_cut_off_pair(first), None, 0
    for found in _ESCAPE.finditer(second):
        is_first = second[found.start() - 1 : found.start()] == b'"' and last != found.start()
        if found[2] is not None and is_first and found[2][2:3] in b"cdefCDEF":
            second_start = found.start()
            break
        last = found.end()
    if first_half is None or second_start is None:
        return None
    shortened = first[: first_half.start()] + first[first_half.end() :]
    return shortened, second[:second_start] + first_half[0] + second[second_start:]


def repair_surrogates(data: bytes) -> bytes:
    """Replace the escapes of lone surrogates in JSON by that of U+FFFD."""
    return _ESCAPE.sub(_replace_lone, data) if b"\\u" in data else data


def _replace_lone(found: re.Match[bytes]) -> bytes:
    return found[0] if found[2] is None else rb"\ufffd"
