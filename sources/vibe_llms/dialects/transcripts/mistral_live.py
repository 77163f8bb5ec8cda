"""Live transcription of Mistral: the WebSocket ``/audio/transcriptions/realtime``.

Source: the package mistralai 3.7.0 (extra/realtime and its models), and
https://docs.mistral.ai/studio/audio/speech-to-text/transcribe-in-realtime, 2026-11-29: each text is
added to the end of the transcript.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from vibe_llms.dialects.calls import LiveFormat, Message, encode_event
from vibe_llms.dialects.embeddings.results import decode
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.payloads import encode_bytes
from vibe_llms.dialects.transcripts.openai import PROTOCOL, produce_event_error, read
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.transcripts import LiveTranscriptionRequest, Transcript
from vibe_llms.models.descriptors import ModelDescriptor

_CHUNK_BYTES: Final = 262_144
"""Maximum audio of one message."""


class _Event(msgspec.Struct):
    type: str = ""
    text: str | None = None
    error: Any = None


def produce_live_format() -> LiveFormat[LiveTranscriptionRequest, Transcript]:
    """Return the format of live calls."""
    return LiveFormat(find_obstacle=find_obstacle, write=write, produce_codec=MistralCodec)


def find_obstacle(request: LiveTranscriptionRequest, model: ModelDescriptor) -> str:
    """Return the reason why the service cannot take the audio as it arrives."""
    if "realtime" not in model.name:
        return f"{model.name} takes audio only as a whole; the models with 'realtime' take it live"
    if request.sample_rate is None:
        return f"Mistral takes live audio only as samples, not as {request.mime_type}"
    return ""


def write(request: LiveTranscriptionRequest, model: ModelDescriptor) -> Translation[str]:
    """Write the path of a call; its settings are in the first message."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    for name in ("prompt", "translates", "timestamps", "temperature"):
        value = getattr(request, name)
        if value is not None and value is not False:
            ledger.drop(name, "live sessions have no field for it")
    if request.interim:
        ledger.drop("interim", "Mistral only adds text: each text is final when it arrives")
    query = urlencode({"model": model.name})
    return Translation(f"/audio/transcriptions/realtime?{query}", ledger.losses)


class MistralCodec:
    """Codec of one call; see :class:`.LiveCodec`."""

    keep_alive = ""

    def __init__(self, request: LiveTranscriptionRequest, model: ModelDescriptor) -> None:
        self._request, self._model = request, model
        self._result: Transcript | None = None

    @property
    def is_complete(self) -> bool:
        """True after the last event."""
        return self._result is not None

    def begin(self) -> list[Message]:
        """Return the settings of the session."""
        audio_format = {"encoding": "pcm_s16le", "sample_rate": self._request.sample_rate}
        session: dict[str, Any] = {"audio_format": audio_format}
        if self._request.language is not None:
            session["language"] = self._request.language
        session |= self._request.options
        return [encode_event({"type": "session.update", "session": session})]

    def write(self, piece: bytes | str) -> list[Message]:
        """Return the messages for audio."""
        assert isinstance(piece, bytes)
        return [
            encode_event({"type": "input_audio.append", "audio": encode_bytes(chunk)})
            for start in range(0, len(piece), _CHUNK_BYTES)
            if (chunk := piece[start : start + _CHUNK_BYTES])
        ]

    def end(self) -> list[Message]:
        """Return the messages for the end of the audio."""
        return [
            encode_event({"type": "input_audio.flush"}),
            encode_event({"type": "input_audio.end"}),
        ]

    def feed(self, message: Message) -> list[str]:
        """Return the text in an event. Raises ValueError, or ProviderError for an error."""
        event: _Event = decode(message, _Event)
        match event.type:
            case "error":
                raise produce_event_error(event.error, self._model)
            case "transcription.text.delta":
                return [event.text or ""]
            case "transcription.done":
                self._result = read(message, self._request, self._model)
        return []

    def finish(self) -> Transcript:
        """Return the transcript of the last event. Raises ValueError if there was none."""
        if self._result is None:
            raise ValueError("the stream ended before the transcript was complete")
        return self._result
