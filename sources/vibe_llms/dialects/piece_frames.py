"""Streams in which the frames of one content differ only in their piece of text."""

from __future__ import annotations

import abc
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.client_answers import StreamWriter
from vibe_llms.events.stream import ContentDeltaEvent, ContentFinishedEvent, StreamEvent
from vibe_llms.messages.canisters import InvocationCanister
from vibe_llms.messages.contents import ReasoningContent, RefusalContent, TextualContent
from vibe_llms.messages.texts import BOUNDARY

_encode: Final = msgspec.json.Encoder().encode
PLACEHOLDER_TEXT: Final = uuid.uuid4().hex
"""Placeholder of a piece in the template of its frames: random, so no other text is equal."""
_PLACEHOLDER: Final = _encode(PLACEHOLDER_TEXT)


class PieceFrameWriter(StreamWriter):
    """Writes the frames of the current content from a template, which is fast.

    A piece of another content, or of another channel, needs another template.
    """

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        self._index, self._channel = -1, ""  # of the current content
        self._frame_template = b""
        self._record_piece: Callable[[str], object] = list[str]().append

    def write(self, event: StreamEvent) -> bytes:
        """Return the complete frames for an event: usually one, sometimes none."""
        if isinstance(event, ContentDeltaEvent):
            text = event.text
            if event.index == self._index and event.channel == self._channel and text:
                self._record_piece(text)
                return self._frame_template.replace(_PLACEHOLDER, _encode(text))
            return self._switch_content(event) if text else b""
        return self._write_event(event)

    @abc.abstractmethod
    def _switch_content(self, event: ContentDeltaEvent) -> bytes:
        """Write a piece of another content than before, or of another channel."""

    @abc.abstractmethod
    def _write_event(self, event: StreamEvent) -> bytes:
        """Return the frames for an event that is not a piece."""

    def _begin_pieces(
        self, event: ContentDeltaEvent, template: bytes, pieces: list[str], text: str
    ) -> bytes:
        """Return the frame of a content's first piece; use its template for the next ones.

        Args:
            template: The frame with ``PLACEHOLDER_TEXT`` instead of the piece.
            pieces: Receives all pieces.
            text: The piece, with a separator if it needs one.
        """
        self._frame_template, self._record_piece = template, pieces.append
        self._index, self._channel = event.index, event.channel
        pieces.append(text)
        return template.replace(_PLACEHOLDER, _encode(text))


def compose_whole_piece(event: ContentFinishedEvent) -> ContentDeltaEvent | None:
    """Return one piece with a whole content, which had no deltas; ``None`` if it has no text."""
    match event.item:
        case TextualContent(text=text) | RefusalContent(text=text):
            return ContentDeltaEvent(event.index, text)
        case ReasoningContent() as reasoning if reasoning.text:
            return ContentDeltaEvent(event.index, reasoning.text)
        case ReasoningContent(summary=summary):
            return ContentDeltaEvent(event.index, BOUNDARY.join(summary), "summary")
        case InvocationCanister(arguments=arguments):
            return ContentDeltaEvent(event.index, arguments, "arguments")
        case _:
            return None
