"""Transcription in OpenAI's format: ``/audio/transcriptions`` and ``/audio/translations``.

Source: types of the package openai 3.57.0 (transcription_create_params.py, transcription.py,
transcription_verbose.py, transcription_text_done_event.py), and of mistralai 3.7.0, whose service
has the same paths and other events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.dialects.call_quirks import TranscriptionQuirks
from vibe_llms.dialects.calls import (
    CallFormat,
    NativeCall,
    StreamFormat,
    produce_origin,
)
from vibe_llms.dialects.embeddings.results import decode
from vibe_llms.dialects.extras import write_json
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.openai_usage import normalize_openai_usage
from vibe_llms.dialects.payloads import read_bytes
from vibe_llms.exceptions import ProviderError, ProviderFault, Stage
from vibe_llms.foundation.forms import FormField, FormFile, encode_form
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.transcripts import (
    Transcript,
    TranscriptionRequest,
    TranscriptionSettings,
    TranscriptPart,
)
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "transcriptions"
STANDARD: Final = TranscriptionQuirks()
"""OpenAI itself."""
AUDIO_BYTES: Final = 25_000_000
_SUFFIXES: Final = {
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/mp4": "m4a",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "audio/webm": "webm",
    "video/mp4": "mp4",
    "video/webm": "webm",
}
"""Suffix of each type: vendors detect the type by the name of the file."""


class _Part(msgspec.Struct):
    start: float | None = None
    end: float | None = None
    text: str | None = None
    word: str | None = None
    speaker: str | None = None
    speaker_id: str | None = None


class _Answer(msgspec.Struct):
    text: str
    language: str | None = None
    duration: float | None = None
    segments: list[_Part] | None = None
    words: list[_Part] | None = None
    usage: dict[str, Any] | None = None
    model: str | None = None


class _Event(msgspec.Struct):
    type: str = ""
    delta: str | None = None
    text: str | None = None
    error: Any = None


def produce_call_format(
    quirks: TranscriptionQuirks, model: str
) -> CallFormat[TranscriptionRequest, Transcript]:
    """Return the call format of a service for a model."""

    def write(request: TranscriptionRequest, model: ModelDescriptor) -> Translation[NativeCall]:
        return nativize(request, model, quirks)

    def write_stream(
        request: TranscriptionRequest, model: ModelDescriptor
    ) -> Translation[NativeCall]:
        return nativize(request, model, quirks, streaming=True)

    stream = StreamFormat(write=write_stream, framing="sse", produce_decoder=TranscriptDecoder)
    return CallFormat(
        path=quirks.path,
        protocol=PROTOCOL if attrs.evolve(quirks, live="") == STANDARD else "",
        max_inputs=1,
        max_bytes=AUDIO_BYTES,
        write=write,
        read=read,
        # Whisper ignores the wish for a stream.
        stream=stream if quirks.streams and "whisper" not in model else None,
    )


def nativize(
    request: TranscriptionRequest,
    model: ModelDescriptor,
    quirks: TranscriptionQuirks,
    *,
    streaming: bool = False,
) -> Translation[NativeCall]:
    """Write a request as a form; what the service does not take is a loss."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    body: dict[str, Any] = {"model": model.name}
    translates = request.translates and quirks.translates
    if request.translates and not translates:
        ledger.drop("translates", "the service transcribes, but does not translate")
    for name, field in (
        ("language", "" if translates else "language"),
        ("prompt", quirks.prompt_field),
        ("temperature", "temperature"),
    ):
        value = getattr(request, name)
        if value is not None and field:
            body[field] = value
        elif value is not None:
            ledger.drop(name, "the service has no field for it")
    if quirks.format_field:
        body |= _choose_format(request, model, ledger)
    elif request.timestamps is not None:
        body["timestamp_granularities"] = [request.timestamps]
    if streaming:
        body["stream"] = True
    fields = list(_flatten({**body, **request.options}))
    fields.append(("file", produce_file(request.audio)))
    path = quirks.translations_path if translates else quirks.path
    return Translation(NativeCall(body=encode_form(fields), path=path), ledger.losses)


def _choose_format(
    request: TranscriptionRequest, model: ModelDescriptor, ledger: Ledger
) -> dict[str, Any]:
    """Return the fields of an answer with the wanted times, as far as the model has them."""
    if "diarize" in model.name:
        return {"response_format": "diarized_json"}
    if request.timestamps is None:
        return {"response_format": "json"}
    if "transcribe" in model.name:  # these have no times
        ledger.drop("timestamps", f"{model.name} does not report times")
        return {"response_format": "json"}
    granularities = [] if request.translates else [request.timestamps]
    return {"response_format": "verbose_json", "timestamp_granularities": granularities}


def _flatten(body: Mapping[str, Any]) -> Iterator[FormField]:
    for name, value in body.items():
        if isinstance(value, list | tuple):
            yield from ((f"{name}[]", str(each)) for each in value)
        else:
            yield name, value if isinstance(value, str) else msgspec.json.encode(value).decode()


def produce_file(audio: AudioContent) -> FormFile:
    """Return the audio as a file. Raises RequestError without its bytes."""
    kind = audio.mime_type.partition(";")[0]
    name = f"audio.{_SUFFIXES.get(kind, 'wav')}"
    return FormFile(read_bytes(audio, "audio"), name, "audio/wav" if audio.is_vague else kind)


def read(answer: bytes | str, request: TranscriptionSettings, model: ModelDescriptor) -> Transcript:
    """Read an answer. Raises ValueError."""
    parsed: _Answer = decode(answer, _Answer)
    usage = parsed.usage or {}
    seconds = parsed.duration
    for name in ("seconds", "prompt_audio_seconds"):
        value = usage.get(name)
        if seconds is None and isinstance(value, int | float):
            seconds = float(value)
    return Transcript(
        text=parsed.text,
        segments=map(_read_part, parsed.segments or ()),
        words=map(_read_part, parsed.words or ()),
        language=parsed.language,
        seconds=seconds,
        origin=produce_origin(model, PROTOCOL, read_usage(usage), reported_model=parsed.model),
    )


def _read_part(part: _Part) -> TranscriptPart:
    text = part.word if part.text is None else part.text
    if part.start is None or part.end is None or text is None:
        raise ValueError("a segment has no times or no text")
    speaker = part.speaker or part.speaker_id
    return TranscriptPart(start=part.start, end=part.end, text=text, speaker=speaker)


def read_usage(usage: Mapping[str, Any]) -> Usage | None:
    """Read the usage of an answer; empty for none."""
    if not usage:
        return None
    if "input_tokens" in usage:
        return normalize_openai_usage(usage, input_name="input_tokens", output_name="output_tokens")
    if "prompt_tokens" in usage:  # Mistral's
        return normalize_openai_usage(
            usage, input_name="prompt_tokens", output_name="completion_tokens"
        )
    return Usage(native=write_json(usage))


class TranscriptDecoder:
    """Decodes the events of OpenAI and of Mistral."""

    def __init__(self, request: TranscriptionRequest, model: ModelDescriptor) -> None:
        self._request, self._model = request, model
        self._result: Transcript | None = None

    def feed(self, data: bytes) -> list[str]:
        """Return the text in an event. Raises ValueError, or ProviderError if it is an error."""
        if data == b"[DONE]":
            return []
        event: _Event = decode(data, _Event)
        if event.error is not None or event.type == "error":
            raise produce_event_error(event.error, self._model)
        match event.type:
            case "transcript.text.delta":
                return [event.delta or ""]
            case "transcription.text.delta":
                return [event.text or ""]
            case "transcript.text.done" | "transcription.done":
                self._result = read(data, self._request, self._model)
        return []

    def finish(self) -> Transcript:
        """Return the transcript of the last event. Raises ValueError if there was none."""
        if self._result is None:
            raise ValueError("the stream ended before the transcript was complete")
        return self._result


def produce_event_error(error: Any, model: ModelDescriptor) -> ProviderError:
    """Return the error for an event of a service: an object with a message, or a text."""
    return ProviderError(
        provider=model.provider,
        fault=ProviderFault.SERVER,
        detail=_describe(error),
        stage=Stage.PROVIDER,
    )


def _describe(error: Any) -> str:
    message = error.get("message") if isinstance(error, Mapping) else error
    return str(message or "The transcription failed.")[:500]
