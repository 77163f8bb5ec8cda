"""Speech of Deepgram: ``/v1/speak``.

Source: the package deepgram-sdk 7.17.0 (speak/v1/audio/raw_client.py), 2026-11-29.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from vibe_llms.dialects.calls import CallFormat, NativeCall, StreamFormat
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.speeches.audio import (
    MEDIA_TYPES,
    PCM_RATE,
    AudioDecoder,
    produce_speech,
)
from vibe_llms.dialects.speeches.openai import choose_format, tell_format
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.speeches import Speech, SpeechRequest, SpeechSettings
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "deepgram"
FORMATS: Final = {"mp3": "mp3", "wav": "linear16", "pcm": "linear16", "opus": "opus"} | {
    "flac": "flac",
    "aac": "aac",
}
"""The vendor's word for each encoding."""
_CONTAINERS: Final = {"wav": "wav", "pcm": "none", "opus": "ogg"}


def produce_call_format() -> CallFormat[SpeechRequest, Speech]:
    """Return the call format."""
    stream = StreamFormat(write=nativize, produce_decoder=produce_decoder)
    return CallFormat(path="/v1/speak", max_inputs=1, write=nativize, read=read, stream=stream)


def nativize(request: SpeechRequest, model: ModelDescriptor) -> Translation[NativeCall]:
    """Write a request: the text is the body, and everything else is in the query."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    tell_format(request, FORMATS, ledger)
    drop_fields(request, ledger)
    chosen = choose_format(request.file_format, FORMATS)
    query: dict[str, Any] = {"model": model.name, "encoding": FORMATS[chosen]}
    if chosen in _CONTAINERS:
        query["container"] = _CONTAINERS[chosen]
    if FORMATS[chosen] == "linear16":
        query["sample_rate"] = PCM_RATE
    if request.speed is not None:
        query["speed"] = request.speed
    path = f"/v1/speak?{urlencode({**query, **request.options})}"
    return Translation(NativeCall(body={"text": request.text}, path=path), ledger.losses)


def drop_fields(request: SpeechSettings, ledger: Ledger) -> None:
    """Report the fields that the service does not have."""
    for name, reason in (
        ("voice", "the model's name is the voice"),
        ("instructions", "Deepgram has no field for them"),
        ("language", "the model's name ends with the language"),
    ):
        if getattr(request, name) is not None:
            ledger.drop(name, reason)


def produce_decoder(request: SpeechRequest, model: ModelDescriptor) -> AudioDecoder:
    """Make the decoder of one answer."""
    kind = MEDIA_TYPES[choose_format(request.file_format, FORMATS)]
    return AudioDecoder(request, model, kind, PROTOCOL)


def read(answer: bytes, request: SpeechRequest, model: ModelDescriptor) -> Speech:
    """Read an answer. Raises ValueError."""
    kind = MEDIA_TYPES[choose_format(request.file_format, FORMATS)]
    return produce_speech(answer, kind, request, model, PROTOCOL)
