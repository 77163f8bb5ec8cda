"""Speech of Deepgram while its text is written: the WebSocket ``/v1/speak``.

Source: the package deepgram-sdk 7.17.0 (speak/v1/client.py, socket_client.py and types), and
https://developers.deepgram.com/docs/tts-ws-flush, 2026-11-29. The service speaks as soon as it has
enough text; errors are close frames.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from vibe_llms.dialects.calls import LiveFormat, Message, encode_event
from vibe_llms.dialects.embeddings.results import decode
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.speeches.audio import PCM_RATE
from vibe_llms.dialects.speeches.deepgram import PROTOCOL, drop_fields
from vibe_llms.dialects.speeches.live import SpeechBuilder
from vibe_llms.dialects.speeches.openai import choose_format
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.speeches import LiveSpeechRequest, Speech
from vibe_llms.models.descriptors import ModelDescriptor

FORMATS: Final = {"wav": "linear16", "pcm": "linear16"}
"""The vendor's word for each format on a WebSocket; it sends samples without a header."""


class _Event(msgspec.Struct):
    type: str = ""


def produce_live_format() -> LiveFormat[LiveSpeechRequest, Speech]:
    """Return the format of live calls."""
    return LiveFormat(find_obstacle=find_obstacle, write=write, produce_codec=DeepgramSpeechCodec)


def find_obstacle(request: LiveSpeechRequest, model: ModelDescriptor) -> str:
    """Return the reason why the service cannot speak the text as it is written."""
    if request.file_format in (None, *FORMATS):
        return ""
    return f"Deepgram sends only wav and pcm while a text is written, not {request.file_format!r}"


def write(request: LiveSpeechRequest, model: ModelDescriptor) -> Translation[str]:
    """Write the path of a call, whose query has all settings."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    drop_fields(request, ledger)
    query: dict[str, Any] = {"model": model.name, "encoding": "linear16", "sample_rate": PCM_RATE}
    if request.speed is not None:
        query["speed"] = request.speed
    return Translation(f"/v1/speak?{urlencode({**query, **request.options})}", ledger.losses)


class DeepgramSpeechCodec:
    """Codec of one call; see :class:`.LiveCodec`."""

    keep_alive = ""

    def __init__(self, request: LiveSpeechRequest, model: ModelDescriptor) -> None:
        self._builder = SpeechBuilder(
            request, model, PROTOCOL, choose_format(request.file_format, FORMATS)
        )
        self.is_complete = False

    def begin(self) -> list[Message]:
        """Return the first messages: none."""
        return []

    def write(self, piece: bytes | str) -> list[Message]:
        """Return the message for a text."""
        assert isinstance(piece, str)
        self._builder.texts.append(piece)
        return [encode_event({"type": "Speak", "text": piece})] if piece else []

    def end(self) -> list[Message]:
        """Return the message for the end of the text."""
        return [encode_event({"type": "Flush"})]

    def feed(self, message: Message) -> list[bytes]:
        """Return the audio in a message. Raises ValueError if it is invalid."""
        if isinstance(message, bytes):
            return self._builder.add(message)
        event: _Event = decode(message, _Event)
        if event.type == "Flushed":
            self.is_complete = True
        return []

    def finish(self) -> Speech:
        """Return the whole audio. Raises ValueError if it is incomplete."""
        if not self.is_complete:
            raise ValueError("the stream ended before the speech was complete")
        return self._builder.build()
