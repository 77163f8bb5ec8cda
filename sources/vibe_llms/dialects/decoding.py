"""What vendors answer as plain data, and the half that the decoders of all dialects share."""

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
"""Any escape; with a first group a character in two halves, with a second one half alone."""

_CUT: Final = re.compile(rb'\\u[dD][89abAB][0-9a-fA-F]{2}"')
"""The first half of a character at the end of a text."""

_NONSENSE: Final = (
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
        reason="half a character (a lone UTF-16 surrogate) became U+FFFD",
    )
)


def decode_json(data: bytes) -> tuple[Any, tuple[LossEvent, ...]]:
    r"""Returns what JSON says, and the losses in that.

    Models cut within a character make vendors write half of it, as ``"\ud83d"``: legal JSON
    that stands for no text. There the sign for what cannot be read replaces it.

    Raises:
        msgspec.DecodeError: It is no JSON.
        UnicodeDecodeError: It is no UTF-8.
        RecursionError: It is too deep.
    """
    try:
        return msgspec.json.decode(data), ()
    except msgspec.DecodeError:
        # Only now: half a character is rare, and looking for one takes time.
        mended = mend_escapes(data)
        if mended == data:
            raise
        return msgspec.json.decode(mended), (_LOSS,)


def is_blank(value: object) -> bool:
    """Tells whether a value says nothing: it is nothing, or holds nothing but such."""
    if isinstance(value, Mapping):
        return all(map(is_blank, value.values()))
    return all(map(is_blank, value)) if isinstance(value, list) else not value


def read_text(value: object) -> str | None:
    """Returns a text that says something; ``None`` for anything else that stands in its place."""
    return value if isinstance(value, str) and value else None


@frozen
class Explaining:
    """Makes an error of ours of what comes of a frame that makes no sense.

    A class, since a generator for it would cost a small answer a twentieth of its time.

    Args:
        provider: That sent it.
        what: It is called there.
    """

    provider: str
    what: str = "a chunk"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, _NONSENSE) and not isinstance(error, ConverseError):
            raise ConverseError(
                detail=f"{self.provider} sent {self.what} that makes no sense: {error!r}.",
                stage=Stage.DECODE,
            ) from error


class ResponseDecoder(abc.ABC):
    """Turns the frames of one response, or all of it, into events; see :class:`.Decoder`.

    A dialect reads them, and adds what they say to ``_events``.

    Args:
        provider: Named in errors.
        model: That was asked; named in errors.

    Attributes:
        is_complete: Whether the vendor has said that nothing of the response is to come.
    """

    frame: ClassVar[str] = "a chunk"
    """What one frame is called, in errors."""

    ends_by_mark: ClassVar[bool] = False
    """Whether the mark behind a stream may be all that says that its response is complete."""

    produce_error: ClassVar[Callable[..., ConverseError]]
    """Makes the exception for an error in the vendor's words."""

    def __init__(self, *, provider: str, model: str = "") -> None:
        self._provider = provider
        self._model = model
        self._explaining = Explaining(provider, self.frame)
        self._events: list[StreamEvent] = []
        self._begun = False
        self._finished = False
        self.is_complete = False
        # A frame that ends a text in half a character, and what reads it.
        self._held: tuple[bytes, Callable[[Any], None]] | None = None

    def decode_response(self, body: Any) -> list[StreamEvent]:
        """Returns the events of a whole response, to their end. Raises ConverseError."""
        return [*self._read_data(body, self._read_response), *self.finish()]

    def finish(self) -> list[StreamEvent]:
        """Returns the last events. To be called when the stream has ended.

        Raises:
            StreamTruncatedError: The vendor has not said that the response is complete.
            ConverseError: There is no content, and no word on why there is none: a vendor that
                says why (a filter, a limit, a model that had nothing to add) has answered.
        """
        if self._finished:
            return []
        if self._held is not None:
            return [*self._let_go(), *self.finish()]
        if not self._has_ended():
            raise StreamTruncatedError(
                detail=f"The stream of {self._provider} ended before its response was complete.",
                remedy="What had arrived is kept; ask again.",
            )
        if self._is_empty():
            raise ConverseError(
                detail=f"{self._provider} answered with nothing: no content, nor why there is "
                "none.",
                remedy="Ask again; if it stays, the server may speak another protocol.",
                stage=Stage.DECODE,
            )
        self._finished = True
        with self._explaining:
            self._events.append(self._end())
        return self._take_events()

    def _receive(self, data: Any, read: Callable[[Any], None]) -> list[StreamEvent]:
        """Returns the events that come of reading data, or the bytes of their JSON."""
        if isinstance(data, bytes) and data.strip() == b"[DONE]":  # some gateways end any stream so
            self.is_complete = self.is_complete or self.ends_by_mark
            return []
        if isinstance(data, bytes) and find_cut(data) is not None:
            # The other half may come first in the next frame. Until then this one waits, and the
            # next one comes to `_join` instead, however the dialect would have read it.
            self._held = data, read
            self.decode = self._join
            return []
        return self._read_data(data, read)

    def _join(self, data: Any, event: str = "") -> list[StreamEvent]:
        """Returns the events of the frame that waits, and of the one behind it."""
        if isinstance(data, bytes) and self._held is not None:
            first, read = self._held
            joined = join_frames(first, data)
            if joined is not None:
                self._held, (first, data) = (joined[0], read), joined
        events = self._let_go()
        return [*events, *self.decode(data, event)]

    def _let_go(self) -> list[StreamEvent]:
        """Returns the events of the frame that waits."""
        assert self._held is not None
        (data, read), self._held = self._held, None
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
        self._events.clear()  # those who help to read have the same list
        return events

    def _fail(self, body: object) -> NoReturn:
        raise self.produce_error(body, provider=self._provider, model=self._model)

    @abc.abstractmethod
    def _read_response(self, response: Any) -> None:
        """Reads a whole response."""

    @abc.abstractmethod
    def _has_ended(self) -> bool:
        """Tells whether the vendor has said that the response is complete."""

    @abc.abstractmethod
    def _is_empty(self) -> bool:
        """Tells whether it said nothing, nor why."""

    @abc.abstractmethod
    def _end(self) -> ResponseFinishedEvent:
        """Ends the contents that are open; returns the last event."""


def find_cut(data: bytes) -> re.Match[bytes] | None:
    """Finds the first half of a character at the end of a text; ``None`` where there is none."""
    if b"\\u" not in data or _CUT.search(data) is None:
        return None
    halves = (found for found in _ESCAPE.finditer(data) if found[2] is not None)
    return next((each for each in halves if _CUT.match(data, each.start())), None)


def join_frames(first: bytes, second: bytes) -> tuple[bytes, bytes] | None:
    """Moves half a character from the end of a text to the other half, which begins the next.

    Returns:
        Both frames; ``None`` where the second one does not begin a text with the other half.
    """
    half, rest, last = find_cut(first), None, 0
    for found in _ESCAPE.finditer(second):
        is_first = second[found.start() - 1 : found.start()] == b'"' and last != found.start()
        if found[2] is not None and is_first and found[2][2:3] in b"cdefCDEF":
            rest = found.start()
            break
        last = found.end()
    if half is None or rest is None:
        return None
    kept = first[: half.start()] + first[half.end() :]
    return kept, second[:rest] + half[0] + second[rest:]


def mend_escapes(data: bytes) -> bytes:
    """Replaces each escape of half a character in JSON by that of the sign for it, U+FFFD."""
    return _ESCAPE.sub(_mend, data) if b"\\u" in data else data


def _mend(found: re.Match[bytes]) -> bytes:
    return found[0] if found[2] is None else rb"\ufffd"
