"""Live transcription of OpenAI: a transcription session of the Realtime API.

Source: types of the package openai 3.57.0 (types/realtime, ``RealtimeTranscriptionSession…`` and
``ConversationItemInputAudioTranscription…``), 2026-11-29.

The service splits the audio into items at the pauses of the speaker; each item is transcribed when
it ends. Items may be complete in another order. The complete text of an item may differ from its
deltas (https://developers.openai.com/api/docs/guides/realtime-transcription, 2026-11-29).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from vibe_llms.dialects.calls import LiveFormat, Message, encode_event
from vibe_llms.dialects.embeddings.results import decode
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.payloads import encode_bytes
from vibe_llms.dialects.speeches.audio import PCM_RATE
from vibe_llms.dialects.transcripts.live import TranscriptBuilder
from vibe_llms.dialects.transcripts.openai import PROTOCOL, produce_event_error, read_usage
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.transcripts import InterimText, LiveTranscriptionRequest, Transcript
from vibe_llms.models.descriptors import ModelDescriptor

_CONTINUOUS: Final = ("gpt-realtime-whisper", "gpt-live-transcribe")
"""Beginnings of the names of models that transcribe without waiting for a pause."""
_KEY: Final = "conversation.item.input_audio_transcription."
_END_ID: Final = "end"
"""Our id of the last message."""


class _Event(msgspec.Struct):
    type: str = ""
    item_id: str = ""
    delta: str | None = None
    transcript: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class _Item:
    """Text of an item.

    Attributes:
        pending: Text that was not yielded yet.
        has_text: Whether there is any text.
        is_complete: Whether the text is complete.
    """

    def __init__(self) -> None:
        self.pending: list[str] = []
        self.has_text = False
        self.is_complete = False


def produce_live_format() -> LiveFormat[LiveTranscriptionRequest, Transcript]:
    """Return the format of live calls."""
    return LiveFormat(find_obstacle=find_obstacle, write=write, produce_codec=OpenAICodec)


def find_obstacle(request: LiveTranscriptionRequest, model: ModelDescriptor) -> str:
    """Return the reason why the service cannot take the audio as it arrives."""
    if request.sample_rate is None:
        return f"OpenAI takes live audio only as samples, not as {request.mime_type}"
    if request.sample_rate != PCM_RATE:
        rate = f"{request.sample_rate:,}"
        return f"OpenAI takes live audio only with {PCM_RATE:,} samples per second, not {rate}"
    if request.translates:
        return "OpenAI does not translate live audio"
    if request.timestamps is not None and model.name == "whisper-1":
        return "OpenAI reports no times for live audio"
    return ""


def write(request: LiveTranscriptionRequest, model: ModelDescriptor) -> Translation[str]:
    """Write the path of a call; its settings are in the first message."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    if request.timestamps is not None:
        ledger.drop("timestamps", "OpenAI reports no times for live audio")
    if request.temperature is not None:
        ledger.drop("temperature", "live sessions have no field for it")
    if request.prompt is not None and model.name.startswith(_CONTINUOUS):
        ledger.drop("prompt", f"{model.name} takes no prompt")
    if request.interim and model.name.startswith(_CONTINUOUS):
        ledger.drop("interim", f"{model.name} only adds text: each text is final when it arrives")
    return Translation("/realtime?intent=transcription", ledger.losses)


class OpenAICodec:
    """Codec of one call; see :class:`.LiveCodec`.

    At the end, the detection of pauses is turned off before the rest of the audio is committed, so
    that the next item after that is the last one.
    """

    keep_alive = ""

    def __init__(self, request: LiveTranscriptionRequest, model: ModelDescriptor) -> None:
        self._request, self._model = request, model
        self._builder = TranscriptBuilder(request, model, PROTOCOL)
        self._is_continuous = model.name.startswith(_CONTINUOUS)
        self._is_interim = request.interim and not self._is_continuous
        self._items: dict[str, _Item] = {}
        self._written = ""  # the item of the last yielded text
        self._updates_before_end = 1 if self._is_continuous else 2
        self._updates = 0
        self._has_ended = False
        self._has_last_item = False

    @property
    def is_complete(self) -> bool:
        """True once all items are complete after the end of the audio."""
        return self._has_last_item and not self._items

    def begin(self) -> list[Message]:
        """Return the settings of the session."""
        request = self._request
        transcription: dict[str, Any] = {"model": self._model.name}
        if request.language is not None:
            transcription["language"] = request.language
        if request.prompt is not None and not self._is_continuous:
            transcription["prompt"] = request.prompt
        return [
            _write_settings(
                {
                    "format": {"type": "audio/pcm", "rate": PCM_RATE},
                    "transcription": transcription,
                    "turn_detection": None if self._is_continuous else {"type": "server_vad"},
                    **request.options,
                }
            )
        ]

    def write(self, piece: bytes | str) -> list[Message]:
        """Return the message for audio."""
        assert isinstance(piece, bytes)
        return [encode_event({"type": "input_audio_buffer.append", "audio": encode_bytes(piece)})]

    def end(self) -> list[Message]:
        """Return the messages for the end of the audio."""
        self._has_ended = True
        commit = encode_event({"type": "input_audio_buffer.commit", "event_id": _END_ID})
        return (
            [commit] if self._is_continuous else [_write_settings({"turn_detection": None}), commit]
        )

    def feed(self, message: Message) -> Sequence[str | InterimText]:
        """Return the text in an event. Raises ValueError, or ProviderError for an error."""
        event: _Event = decode(message, _Event)
        match event.type.removeprefix(_KEY):
            case "error":
                self._read_error(event)
            case "failed":
                raise produce_event_error(event.error, self._model)
            case "session.updated":
                self._updates += 1
            case "input_audio_buffer.committed":
                self._access_item(event)
                is_last = self._updates >= self._updates_before_end
                self._has_last_item = self._has_ended and is_last
            case "delta":
                self._add(self._access_item(event), event.delta)
            case "completed":
                item = self._access_item(event)
                if self._is_interim and event.transcript is not None:
                    item.pending = [event.transcript]
                elif not item.has_text:  # whisper-1 has no deltas
                    self._add(item, event.transcript)
                item.is_complete = True
                self._builder.add_usage(read_usage(event.usage or {}))
            case _:
                return []
        return list(self._take_texts())

    def _read_error(self, event: _Event) -> None:
        error = event.error if isinstance(event.error, dict) else {}
        is_empty = error.get("code") == "input_audio_buffer_commit_empty"
        if not (is_empty and error.get("event_id") == _END_ID):
            raise produce_event_error(event.error, self._model)
        self._has_last_item = True  # the audio ended at a pause

    def _access_item(self, event: _Event) -> _Item:
        return self._items.setdefault(event.item_id, _Item())

    def _add(self, item: _Item, text: str | None) -> None:
        if text:
            item.pending.append(text)
            item.has_text = True

    def _take_texts(self) -> Iterator[str | InterimText]:
        """Yield new texts in the order of the items."""
        while self._items:
            identity, item = next(iter(self._items.items()))
            if item.is_complete or not self._is_interim:
                for text in item.pending:
                    yield from self._write_text(identity, text)
                item.pending.clear()
            if not item.is_complete:
                break
            del self._items[identity]
        if self._is_interim:
            texts = ["".join(item.pending) for item in self._items.values()]
            yield from self._builder.show(" ".join(filter(None, texts)))

    def _write_text(self, identity: str, text: str) -> list[str]:
        is_first, self._written = identity != self._written, identity
        return self._builder.add_separate(text) if is_first else self._builder.add(text)

    def finish(self) -> Transcript:
        """Return the transcript. Raises ValueError if an item is missing."""
        if not self.is_complete:
            raise ValueError("the stream ended before the transcript was complete")
        return self._builder.build()


def _write_settings(audio: dict[str, Any]) -> str:
    session: dict[str, Any] = {"type": "transcription", "audio": {"input": audio}}
    return encode_event({"type": "session.update", "session": session})
