"""Transcription of Deepgram: ``/v1/listen``, which takes the audio itself as the body.

Source: the package deepgram-sdk 7.17.0 (listen/v1/media/raw_client.py, types
listen_v1response*.py), 2026-11-29.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from vibe_llms.dialects.calls import CallFormat, NativeCall, produce_origin
from vibe_llms.dialects.embeddings.results import decode
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.payloads import read_bytes
from vibe_llms.foundation.forms import EncodedBody
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.transcripts import (
    Transcript,
    TranscriptionRequest,
    TranscriptionSettings,
    TranscriptPart,
)
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "deepgram"
AUDIO_BYTES: Final = 2_000_000_000


class _Word(msgspec.Struct):
    start: float
    end: float
    word: str = ""
    punctuated_word: str | None = None
    speaker: int | None = None


class Alternative(msgspec.Struct):
    """The best text of some audio.

    Attributes:
        transcript: The text.
        words: Its words.
        languages: Detected languages of live audio.
    """

    transcript: str = ""
    words: list[_Word] | None = None
    languages: list[str] | None = None


class _Channel(msgspec.Struct):
    alternatives: list[Alternative]
    detected_language: str | None = None


class _Utterance(msgspec.Struct):
    start: float
    end: float
    transcript: str
    speaker: int | None = None


class _Results(msgspec.Struct):
    channels: list[_Channel]
    utterances: list[_Utterance] | None = None


class _Metadata(msgspec.Struct):
    request_id: str | None = None
    duration: float | None = None


class _Answer(msgspec.Struct):
    results: _Results
    metadata: _Metadata | None = None


def produce_call_format() -> CallFormat[TranscriptionRequest, Transcript]:
    """Return the call format."""
    return CallFormat(
        path="/v1/listen", max_inputs=1, max_bytes=AUDIO_BYTES, write=nativize, read=read
    )


def nativize(request: TranscriptionRequest, model: ModelDescriptor) -> Translation[NativeCall]:
    """Write a request: the audio is the body, or a URL that the vendor downloads."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    query: dict[str, Any] = {"model": model.name, "smart_format": "true"}
    if request.language is None:
        query["detect_language"] = "true"
    else:
        query["language"] = request.language
    if request.timestamps == "segment":
        query["utterances"] = "true"
    drop_fields(request, ledger)
    audio = request.audio
    body: EncodedBody | JsonObject
    if audio.data is None and audio.url is not None and not audio.url.startswith("data:"):
        body = {"url": audio.url}
    else:
        kind = "application/octet-stream" if audio.is_vague else audio.mime_type
        body = EncodedBody(read_bytes(audio, "audio"), kind)
    path = f"/v1/listen?{urlencode({**query, **request.options})}"
    return Translation(NativeCall(body=body, path=path), ledger.losses)


def drop_fields(request: TranscriptionSettings, ledger: Ledger) -> None:
    """Report the fields that the service does not have."""
    for name in ("prompt", "translates", "temperature"):
        value = getattr(request, name)
        if value is not None and value is not False:
            ledger.drop(name, "Deepgram has no field for it")


def read(answer: bytes, request: TranscriptionRequest, model: ModelDescriptor) -> Transcript:
    """Read an answer. Raises ValueError."""
    parsed: _Answer = decode(answer, _Answer)
    chosen = [each.alternatives[0] for each in parsed.results.channels if each.alternatives]
    if not chosen:
        raise ValueError("it has no transcript")
    words = chosen[0].words if request.timestamps == "word" else None
    metadata = parsed.metadata or _Metadata()
    return Transcript(
        text="\n".join(each.transcript for each in chosen),
        words=map(read_word, words or ()),
        segments=map(_read_utterance, parsed.results.utterances or ()),
        language=parsed.results.channels[0].detected_language or request.language,
        seconds=metadata.duration,
        origin=produce_origin(model, PROTOCOL, None, response_id=metadata.request_id),
    )


def read_word(word: _Word) -> TranscriptPart:
    """Read a word."""
    text = word.punctuated_word or word.word
    return TranscriptPart(start=word.start, end=word.end, text=text, speaker=_name(word.speaker))


def _read_utterance(each: _Utterance) -> TranscriptPart:
    speaker = _name(each.speaker)
    return TranscriptPart(start=each.start, end=each.end, text=each.transcript, speaker=speaker)


def _name(speaker: int | None) -> str | None:
    return None if speaker is None else str(speaker)
