"""Live speech and transcription of Deepgram, ElevenLabs, OpenAI and Mistral: their WebSockets.

As in ``speech``, audio contains its text.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from vibe_llms.testing.simulator.credentials import check_model
from vibe_llms.testing.simulator.prompts import count_tokens
from vibe_llms.testing.simulator.protocols import SimulatedRequest
from vibe_llms.testing.simulator.refusals import require
from vibe_llms.testing.simulator.speech import hear

Event = Mapping[str, Any]

_RATES: Final = range(8_000, 48_001)
_NATIVE: Final = ("gpt-realtime-whisper", "gpt-live-transcribe")
"""Beginnings of the names of models that transcribe while audio arrives."""


class LiveService:
    """One connection.

    Attributes:
        is_over: True once the service closes the connection.
    """

    def __init__(self, request: SimulatedRequest) -> None:
        self.request = request
        self.is_over = False
        self._audio = b""

    def open(self) -> Iterable[Event]:
        """Return the first events. Raises SimulatedRefusal before the connection is open."""
        return ()

    def receive(self, message: bytes | str) -> Iterable[Event | bytes]:
        """Return the events, or the audio, for a message."""
        raise NotImplementedError

    def fail(self) -> Event:
        """Return the event of an error in the service."""
        raise NotImplementedError

    def take_words(self, *, is_end: bool = False) -> list[str]:
        """Remove the complete words from the audio, and return them."""
        text = hear(self._audio)
        words = text.split(" ")
        rest = "" if is_end else words.pop()
        self._audio = rest.encode()
        return [word for word in words if word]


class DeepgramListen(LiveService):
    """``/v1/listen``: every word is a result."""

    def __init__(self, request: SimulatedRequest) -> None:
        super().__init__(request)
        self._position = 0.0
        self._has_audio = False

    def open(self) -> Iterable[Event]:
        query = self.request.query
        check_model(query.get("model", ""))
        require("detect_language" not in query, "detect_language is not available for streaming.")
        require("utterances" not in query, "utterances is not available for streaming.")
        if "encoding" in query:
            known = ("linear16", "linear32", "flac", "alaw", "mulaw", "opus", "ogg-opus")
            require(query["encoding"] in known, "Unsupported encoding.")
            rate = query.get("sample_rate", "")
            require(rate.isdigit() and int(rate) in _RATES, "sample_rate is required.")
        return ()

    def receive(self, message: bytes | str) -> Iterable[Event]:
        if isinstance(message, bytes):
            return self._take_audio(message)
        try:
            kind = json.loads(message)["type"]
        except (ValueError, LookupError, TypeError):
            kind = ""
        if kind == "KeepAlive":
            return ()
        if kind == "Finalize":
            return self._produce_results(is_end=True)
        if kind == "CloseStream":
            return self._end()
        error = {"type": "Error", "variant": "SchemaError", "description": "Could not parse it.",
                 "message": message}  # fmt: skip
        return (error,)

    def fail(self) -> Event:
        return {"type": "Error", "variant": "InternalError", "description": "Overloaded."}

    def _take_audio(self, data: bytes) -> Iterable[Event]:
        if not data:
            return self._end()
        events: list[Event] = [] if self._has_audio else [self._describe()]
        self._has_audio = True
        self._audio += data
        return [*events, *self._produce_results(is_end=False)]

    def _end(self) -> Iterable[Event]:
        self.is_over = True
        return [*self._produce_results(is_end=True), self._describe()]

    def _produce_results(self, *, is_end: bool) -> list[Event]:
        events = []
        for word in self.take_words(is_end=is_end):
            if self.request.query.get("interim_results") == "true":
                events.append(self._produce_result(word[:2], is_final=False))
            events.append(self._produce_result(word, is_final=True))
            self._position += 0.5
        if is_end:
            events.append(self._produce_result("", is_final=True))
        return events

    def _produce_result(self, word: str, *, is_final: bool) -> Event:
        start = self._position
        words = [{"word": word.lower(), "punctuated_word": word, "start": start,
                  "end": start + 0.4, "confidence": 0.9}]  # fmt: skip
        alternative: dict[str, Any] = {
            "transcript": word, "confidence": 0.9, "words": words if word else []
        }  # fmt: skip
        if self.request.query.get("language") == "multi":
            alternative["languages"] = ["en"]
        return {
            "type": "Results", "channel_index": [0, 1], "duration": 0.5, "start": start,
            "is_final": is_final, "speech_final": is_final,
            "channel": {"alternatives": [alternative]},
            "metadata": {"request_id": "d1", "model_uuid": "u", "model_info": {}},
        }  # fmt: skip

    def _describe(self) -> Event:
        return {"type": "Metadata", "transaction_key": "deprecated", "request_id": "d1",
                "sha256": "0", "created": "2026-11-29T00:00:00Z", "duration": self._position,
                "channels": 1}  # fmt: skip


class _JsonService(LiveService):
    """A service whose messages are JSON objects with a type."""

    def receive(self, message: bytes | str) -> Iterable[Event | bytes]:
        try:
            event = json.loads(message)
            kind = event["type"]
        except (ValueError, LookupError, TypeError):
            return (self.refuse("The message is not valid.", {}),)
        handle = self.handlers.get(kind)
        if handle is None:
            return (self.refuse(f"Invalid value: '{kind}'.", event),)
        try:
            return handle(event)
        except (ValueError, LookupError, TypeError) as error:
            return (self.refuse(f"Invalid message: {error!r}.", event),)

    @property
    def handlers(self) -> Mapping[str, Callable[[Event], Iterable[Event | bytes]]]:
        """Functions that answer each type of message."""
        raise NotImplementedError

    def refuse(self, message: str, event: Event, code: str = "invalid_value") -> Event:
        """Return the error for a message."""
        raise NotImplementedError

    def append(self, event: Event) -> None:
        """Add base64 audio to the buffer. Raises ValueError."""
        try:
            data = base64.b64decode(event["audio"], validate=True)
        except binascii.Error as error:
            raise ValueError("audio is not base64") from error
        if len(data) % 2:
            raise ValueError("audio ends within a sample")
        self._audio += data


class OpenAITranscription(_JsonService):
    """``/v1/realtime?intent=transcription``."""

    def __init__(self, request: SimulatedRequest) -> None:
        super().__init__(request)
        self._input: dict[str, Any] = {"format": {"type": "audio/pcm", "rate": 24_000}}
        self._text = ""
        self._item = ""

    @property
    def handlers(self) -> Mapping[str, Callable[[Event], Iterable[Event]]]:
        return {
            "session.update": self._update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit_buffer,
        }

    def open(self) -> Iterable[Event]:
        query = self.request.query
        require(query.get("intent") == "transcription", "Missing required parameter: 'model'.")
        require("model" not in query, "You must not provide a model parameter.")
        return (self._mark("session.created", session=self._describe()),)

    def refuse(self, message: str, event: Event, code: str = "invalid_value") -> Event:
        detail = {"type": "invalid_request_error", "code": code, "message": message,
                  "param": None, "event_id": event.get("event_id")}  # fmt: skip
        return self._mark("error", error=detail)

    def fail(self) -> Event:
        detail = {"type": "server_error", "code": "overloaded", "message": "Overloaded."}
        return self._mark("error", error=detail)

    def _mark(self, kind: str, **fields: Any) -> Event:
        return {"type": kind, "event_id": self.request.mint("event_", 12), **fields}

    def _describe(self) -> Event:
        return {"type": "transcription", "object": "realtime.transcription_session",
                "id": "sess_1", "audio": {"input": self._input}}  # fmt: skip

    def _update(self, event: Event) -> Iterable[Event]:
        session = event["session"]
        if session.get("type") != "transcription":
            return (self.refuse("session.type must be 'transcription'.", event),)
        given = session["audio"]["input"]
        if given.get("format", self._input["format"]) != {"type": "audio/pcm", "rate": 24_000}:
            return (self.refuse("Only a sample rate of 24000 is supported.", event),)
        merged = {**self._input, **given}
        model = merged["transcription"]["model"]
        check_model(model)
        if model.startswith(_NATIVE) and merged.get("turn_detection") is not None:
            return (self.refuse("VAD is not supported for this model.", event),)
        self._input = merged
        return (self._mark("session.updated", session=self._describe()),)

    @property
    def _is_native(self) -> bool:
        return str(self._input["transcription"]["model"]).startswith(_NATIVE)

    def _append(self, event: Event) -> Iterable[Event]:
        if "transcription" not in self._input:
            return (self.refuse("Transcription is off.", event),)
        self.append(event)
        if self._is_native:
            return self._produce_deltas(self.take_words())
        if self._input.get("turn_detection") is not None and b". " in self._audio:
            # The end of a sentence is a pause of the speaker.
            head, _, rest = self._audio.partition(b". ")
            self._audio = head + b"."
            events = self._commit()
            self._audio = rest
            return events
        return ()

    def _commit_buffer(self, event: Event) -> Iterable[Event]:
        if not self._audio.strip() and not self._text:
            message = "Error committing input audio buffer: buffer too small."
            return (self.refuse(message, event, "input_audio_buffer_commit_empty"),)
        return self._commit()

    def _commit(self) -> list[Event]:
        deltas = self._produce_deltas(self.take_words(is_end=True))
        text, item = self._text, self._item
        if "revised_text" in self.request.conditions:
            text = text.upper()
        self._text = self._item = ""
        usage = {
            "type": "tokens", "input_tokens": 30, "output_tokens": count_tokens(text),
            "total_tokens": 30 + count_tokens(text),
            "input_token_details": {"text_tokens": 0, "audio_tokens": 30},
        }  # fmt: skip
        kind = "conversation.item.input_audio_transcription"
        return [
            self._mark("input_audio_buffer.committed", item_id=item, previous_item_id=None),
            *deltas,
            self._mark(f"{kind}.completed", item_id=item, content_index=0, transcript=text,
                       usage=usage),
        ]  # fmt: skip

    def _produce_deltas(self, words: Iterable[str]) -> list[Event]:
        kind = "conversation.item.input_audio_transcription.delta"
        events = []
        for word in words:
            self._item = self._item or self.request.mint("item_", 12)
            delta = f" {word}" if self._text else word
            self._text += delta
            events.append(self._mark(kind, item_id=self._item, content_index=0, delta=delta))
        return events


class MistralTranscription(_JsonService):
    """``/v1/audio/transcriptions/realtime``."""

    def __init__(self, request: SimulatedRequest) -> None:
        super().__init__(request)
        self._format = {"encoding": "pcm_s16le", "sample_rate": 16_000}
        self._text = ""
        self._has_audio = False

    @property
    def handlers(self) -> Mapping[str, Callable[[Event], Iterable[Event]]]:
        return {
            "session.update": self._update,
            "input_audio.append": self._append,
            "input_audio.flush": lambda event: (),
            "input_audio.end": self._end,
        }

    def open(self) -> Iterable[Event]:
        check_model(self.request.query.get("model", ""))
        return ({"type": "session.created", "session": self._describe()},)

    def refuse(self, message: str, event: Event, code: str = "invalid_value") -> Event:
        return {"type": "error", "error": {"message": message, "code": 3000}}

    def fail(self) -> Event:
        return {"type": "error", "error": {"message": "Overloaded.", "code": 1000}}

    def _describe(self) -> Event:
        return {"request_id": "ws-1", "model": self.request.query["model"],
                "audio_format": self._format}  # fmt: skip

    def _update(self, event: Event) -> Iterable[Event]:
        session = event["session"]
        known = {"audio_format", "target_streaming_delay_ms", "diarize", "context_bias",
                 "language", "speaker_references", "turn_detection"}  # fmt: skip
        if self._has_audio or not session or not session.keys() <= known:
            return (self.refuse("Invalid session update.", event),)
        self._format = session.get("audio_format", self._format)
        if self._format["encoding"] != "pcm_s16le" or self._format["sample_rate"] not in _RATES:
            return (self.refuse("Unsupported audio_format.", event),)
        return ({"type": "session.updated", "session": self._describe()},)

    def _append(self, event: Event) -> Iterable[Event]:
        self._has_audio = True
        self.append(event)
        if len(event["audio"]) > 349_528:
            return (self.refuse("Audio chunk too large.", event),)
        return self._produce_deltas(self.take_words())

    def _end(self, event: Event) -> Iterable[Event]:
        deltas = self._produce_deltas(self.take_words(is_end=True))
        usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12,
                 "prompt_audio_seconds": 2}  # fmt: skip
        done = {"type": "transcription.done", "model": self.request.query["model"],
                "text": self._text, "usage": usage, "language": "en", "segments": []}  # fmt: skip
        self.is_over = True
        return [*deltas, done]

    def _produce_deltas(self, words: Iterable[str]) -> list[Event]:
        events: list[Event] = []
        for word in words:
            delta = f" {word}" if self._text else word
            self._text += delta
            events.append({"type": "transcription.text.delta", "text": delta})
        return events


class DeepgramSpeak(_JsonService):
    """``/v1/speak``: speaks complete sentences, and the rest when it is flushed."""

    def __init__(self, request: SimulatedRequest) -> None:
        super().__init__(request)
        self._text = ""
        self._flushes = 0

    @property
    def handlers(self) -> Mapping[str, Callable[[Event], Iterable[Event | bytes]]]:
        return {"Speak": self._speak, "Flush": self._flush, "Close": self._close}

    def open(self) -> Iterable[Event]:
        query = self.request.query
        check_model(query.get("model", ""))
        require(query.get("encoding") in ("linear16", "mulaw", "alaw"), "Unsupported encoding.")
        require("container" not in query, "container is not available for streaming.")
        return ({"type": "Metadata", "request_id": "d2", "model_name": query["model"]},)

    def refuse(self, message: str, event: Event, code: str = "invalid_value") -> Event:
        return {"type": "Warning", "description": message, "code": code}

    def fail(self) -> Event:
        return {"type": "Warning", "description": "Overloaded.", "code": "OVERLOADED"}

    def _speak(self, event: Event) -> Iterable[Event | bytes]:
        self._text += event["text"]
        head, end, self._text = self._text.rpartition(". ")
        return [(head + end).encode()] if end else []

    def _flush(self, event: Event) -> Iterable[Event | bytes]:
        rest, self._text = self._text, ""
        self._flushes += 1
        flushed = {"type": "Flushed", "sequence_id": self._flushes - 1}
        return [rest.encode(), flushed] if rest else [flushed]

    def _close(self, event: Event) -> Iterable[Event | bytes]:
        self.is_over = True
        return ()


class ElevenLabsStreamInput(LiveService):
    """``/v1/text-to-speech/{voice}/stream-input``: speaks complete sentences."""

    def __init__(self, request: SimulatedRequest) -> None:
        super().__init__(request)
        self._text = ""
        self._has_begun = False

    def open(self) -> Iterable[Event]:
        query = self.request.query
        check_model(query.get("model_id", ""))
        kind = query.get("output_format", "mp3_44100_128").partition("_")[0]
        require(kind in ("mp3", "pcm", "opus"), "Invalid output_format.")
        return ()

    def receive(self, message: bytes | str) -> Iterable[Event]:
        try:
            text = json.loads(message)["text"]
        except (ValueError, LookupError, TypeError):
            return (self._refuse("The message is not valid."),)
        if not self._has_begun and text != " ":
            return (self._refuse("The first text must be a space."),)
        self._has_begun = True
        if text == "":
            self.is_over = True
            return [*self._produce_audio(self._text), {"isFinal": True, "audio": None}]
        if not text.endswith(" "):
            return (self._refuse("A text must end with a space."),)
        self._text += text.lstrip()
        head, end, self._text = self._text.rpartition(". ")
        return self._produce_audio(head + end)

    def fail(self) -> Event:
        return {"message": "Overloaded.", "error": "overloaded", "code": 1011}

    def _refuse(self, message: str) -> Event:
        return {"message": message, "error": "input_invalid", "code": 1008}

    def _produce_audio(self, text: str) -> list[Event]:
        if not text:
            return []
        audio = base64.b64encode(text.encode()).decode()
        return [{"audio": audio, "isFinal": None, "alignment": None}]


SERVICES: Final[Mapping[str, type[LiveService]]] = {
    "live_deepgram": DeepgramListen,
    "live_mistral": MistralTranscription,
    "live_openai": OpenAITranscription,
    "live_speech_deepgram": DeepgramSpeak,
    "live_speech_elevenlabs": ElevenLabsStreamInput,
}
"""Services by the purpose of a route."""
