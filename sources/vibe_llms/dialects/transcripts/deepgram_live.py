"""Live transcription of Deepgram: the WebSocket ``/v1/listen``.

Source: the package deepgram-sdk 7.17.0 (listen/v1/client.py, socket_client.py and types), and
https://developers.deepgram.com/reference/listen-live, 2026-11-29. The service disconnects after its
last message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from vibe_llms.dialects.calls import LiveFormat, Message
from vibe_llms.dialects.embeddings.results import decode
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.transcripts.deepgram import (
    PROTOCOL,
    Alternative,
    drop_fields,
    read_word,
)
from vibe_llms.dialects.transcripts.live import TranscriptBuilder
from vibe_llms.dialects.transcripts.openai import produce_event_error
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.transcripts import (
    InterimText,
    LiveTranscriptionRequest,
    Transcript,
    TranscriptPart,
)
from vibe_llms.models.descriptors import ModelDescriptor

_MULTILINGUAL: Final = ("nova-2", "nova-3")
"""Beginnings of the names of models that detect the language of live audio."""


class _Channel(msgspec.Struct):
    alternatives: list[Alternative] = []


class _Event(msgspec.Struct):
    type: str = ""
    start: float = 0.0
    duration: float = 0.0
    # Of results a channel, of other events a list of numbers.
    channel: Any = None
    is_final: bool | None = None
    request_id: str | None = None
    description: str | None = None
    variant: str | None = None


def produce_live_format() -> LiveFormat[LiveTranscriptionRequest, Transcript]:
    """Return the format of live calls."""
    return LiveFormat(write=write, produce_codec=DeepgramCodec)


def write(request: LiveTranscriptionRequest, model: ModelDescriptor) -> Translation[str]:
    """Write the path of a call, whose query has all settings."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    query: dict[str, Any] = {"model": model.name, "smart_format": "true"}
    if request.language is not None:
        query["language"] = request.language
    elif model.name.startswith(_MULTILINGUAL):
        query["language"] = "multi"
    if request.sample_rate is not None:
        query |= {"encoding": "linear16", "sample_rate": request.sample_rate, "channels": 1}
    if request.interim:
        query["interim_results"] = "true"
    drop_fields(request, ledger)
    return Translation(f"/v1/listen?{urlencode({**query, **request.options})}", ledger.losses)


class DeepgramCodec:
    """Codec of one call; see :class:`.LiveCodec`."""

    keep_alive = '{"type":"KeepAlive"}'
    is_complete = False  # the service disconnects

    def __init__(self, request: LiveTranscriptionRequest, model: ModelDescriptor) -> None:
        self._model = model
        self._builder = TranscriptBuilder(request, model, PROTOCOL)
        self._is_interim = request.interim
        self._has_ended = False
        self._has_metadata = False

    def begin(self) -> list[Message]:
        """Return the first messages: none."""
        return []

    def write(self, piece: bytes | str) -> list[Message]:
        """Return the message for audio."""
        # An empty message would end the audio.
        return [piece] if piece else []

    def end(self) -> list[Message]:
        """Return the message for the end of the audio."""
        self._has_ended = True
        return ['{"type":"CloseStream"}']

    def feed(self, message: Message) -> Sequence[str | InterimText]:
        """Return the text in a message. Raises ValueError, or ProviderError for an error."""
        event: _Event = decode(message, _Event)
        match event.type:
            case "Results":
                self._has_metadata = False  # the summary comes last
                return self._read_results(event)
            case "Metadata" if self._has_ended:
                self._builder.seconds = event.duration
                self._builder.response_id = event.request_id
                self._has_metadata = True
            case "Error":
                raise produce_event_error(event.description or event.variant, self._model)
        return []

    def _read_results(self, event: _Event) -> Sequence[str | InterimText]:
        try:
            channel = msgspec.convert(event.channel, _Channel)
        except msgspec.ValidationError as error:
            raise ValueError(f"a result is invalid: {error}") from None
        best = channel.alternatives[0] if channel.alternatives else Alternative()
        if not event.is_final or not best.transcript:
            text = "" if event.is_final else best.transcript
            return self._builder.show(text) if self._is_interim else []
        self._builder.words += map(read_word, best.words or ())
        end = event.start + event.duration
        part = TranscriptPart(start=event.start, end=end, text=best.transcript)
        self._builder.segments.append(part)
        if best.languages:
            self._builder.language = self._builder.language or best.languages[0]
        return self._builder.add_separate(best.transcript)

    def finish(self) -> Transcript:
        """Return the transcript. Raises ValueError before the service's summary."""
        if not self._has_metadata:
            raise ValueError("the stream ended before the transcript was complete")
        return self._builder.build()
