"""Transcription of ElevenLabs: ``/v1/speech-to-text``.

Source: the package elevenlabs 2.78.0 (speech_to_text/raw_client.py, types
speech_to_text_chunk_response_model.py and speech_to_text_word_response_model.py), 2026-11-29.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from vibe_llms.dialects.calls import CallFormat, NativeCall, produce_origin
from vibe_llms.dialects.embeddings.results import decode
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.transcripts.openai import produce_file
from vibe_llms.foundation.forms import FormField, encode_form
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.transcripts import Transcript, TranscriptionRequest, TranscriptPart
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "elevenlabs"
AUDIO_BYTES: Final = 1_000_000_000


class _Word(msgspec.Struct):
    text: str
    start: float | None = None
    end: float | None = None
    type: str = "word"
    speaker_id: str | None = None


class _Answer(msgspec.Struct):
    text: str
    language_code: str | None = None
    words: list[_Word] | None = None
    transcription_id: str | None = None
    audio_duration_secs: float | None = None


def produce_call_format() -> CallFormat[TranscriptionRequest, Transcript]:
    """Return the call format."""
    return CallFormat(
        path="/v1/speech-to-text", max_inputs=1, max_bytes=AUDIO_BYTES, write=nativize, read=read
    )


def nativize(request: TranscriptionRequest, model: ModelDescriptor) -> Translation[NativeCall]:
    """Write a request as a form."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    fields: list[FormField] = [("model_id", model.name)]
    if request.language is not None:
        fields.append(("language_code", request.language))
    if request.temperature is not None:
        fields.append(("temperature", str(request.temperature)))
    for name in ("prompt", "translates"):
        if getattr(request, name):
            ledger.drop(name, "ElevenLabs has no field for it")
    if request.timestamps == "segment":
        ledger.coerce("timestamps", "ElevenLabs reports the times of words")
    granularity = "none" if request.timestamps is None else "word"
    fields.append(("timestamps_granularity", granularity))
    fields += [(name, _write(value)) for name, value in request.options.items()]
    fields.append(("file", produce_file(request.audio)))
    return Translation(NativeCall(body=encode_form(fields)), ledger.losses)


def _write(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def read(answer: bytes, request: TranscriptionRequest, model: ModelDescriptor) -> Transcript:
    """Read an answer. Raises ValueError."""
    parsed: _Answer = decode(answer, _Answer)
    words = [
        TranscriptPart(start=word.start, end=word.end, text=word.text, speaker=word.speaker_id)
        for word in parsed.words or ()
        if word.type == "word" and word.start is not None and word.end is not None
    ]
    return Transcript(
        text=parsed.text,
        words=words,
        language=parsed.language_code,
        seconds=parsed.audio_duration_secs,
        origin=produce_origin(model, PROTOCOL, None, response_id=parsed.transcription_id),
    )
