"""Speech in OpenAI's format: ``/audio/speech``.

Source: types of the package openai 3.57.0 (speech_create_params.py); other services as named in
``kinds.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.call_quirks import SpeechQuirks
from vibe_llms.dialects.calls import CallFormat, ClientFormat, Piece, PieceWriter, StreamFormat
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.payloads import encode_bytes
from vibe_llms.dialects.speeches.audio import MEDIA_TYPES, AudioDecoder, produce_speech
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.forms import EncodedBody
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.speeches import Speech, SpeechRequest, SpeechSettings
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "speech"
STANDARD: Final = SpeechQuirks()
"""OpenAI itself."""


def produce_call_format(quirks: SpeechQuirks) -> CallFormat[SpeechRequest, Speech]:
    """Return the call format of a service, which always sends the audio while it is made."""

    def write(request: SpeechRequest, model: ModelDescriptor) -> Translation[JsonObject]:
        return nativize(request, model, quirks)

    def read(answer: bytes, request: SpeechRequest, model: ModelDescriptor) -> Speech:
        kind = MEDIA_TYPES[choose_format(request.file_format, quirks.formats)]
        return produce_speech(answer, kind, request, model, PROTOCOL)

    def produce_decoder(request: SpeechRequest, model: ModelDescriptor) -> AudioDecoder:
        kind = MEDIA_TYPES[choose_format(request.file_format, quirks.formats)]
        return AudioDecoder(request, model, kind, PROTOCOL)

    return CallFormat(
        path=quirks.path,
        protocol=PROTOCOL if quirks == STANDARD else "",
        max_inputs=1,
        write=write,
        read=read,
        stream=StreamFormat(write=write, produce_decoder=produce_decoder),
    )


def choose_format(file_format: str | None, formats: Mapping[str, str]) -> str:
    """Return a format of the service: the requested format, or else the first one."""
    if file_format is not None and file_format in formats:
        return file_format
    return next(iter(formats))


def tell_format(request: SpeechSettings, formats: Mapping[str, str], ledger: Ledger) -> None:
    """Record a format that the service does not have."""
    chosen = choose_format(request.file_format, formats)
    if request.file_format not in (None, chosen):
        reason = f"the service has no format {request.file_format!r}; sent as {chosen}"
        ledger.coerce("file_format", reason)


def nativize(
    request: SpeechRequest, model: ModelDescriptor, quirks: SpeechQuirks
) -> Translation[JsonObject]:
    """Write the body of a request; what the service does not take is a loss."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    voice = request.voice or quirks.default_voice
    if not voice:
        raise RequestError(
            path="voice",
            detail=f"{model.provider} needs the name of a voice.",
            remedy="Name one that its manual lists for the model.",
        )
    tell_format(request, quirks.formats, ledger)
    chosen = choose_format(request.file_format, quirks.formats)
    body: dict[str, Any] = {
        "model": model.name,
        "input": request.text,
        "voice": voice,
        "response_format": quirks.formats[chosen],
    }
    for name, field in (
        ("speed", quirks.speed_field),
        ("instructions", quirks.instructions_field),
        ("language", quirks.language_field),
    ):
        value = getattr(request, name)
        if value is not None and field:
            body[field] = value
        elif value is not None:
            ledger.drop(name, "the service has no field for it", is_routine=name == "language")
    return Translation({**body, **request.options}, ledger.losses)


_READ: Final = frozenset(
    {
        *("model", "input", "voice", "response_format", "speed", "instructions", "stream_format"),
        "stream",
    }
)


def normalize(native: Mapping[str, Any]) -> Translation[SpeechRequest]:
    """Read a client's request. Raises RequestError."""
    ledger = Ledger(protocol=PROTOCOL)
    ledger.drop_unknown(native, _READ)
    voice = native.get("voice")
    if isinstance(voice, Mapping):
        voice = voice.get("id")
    for name, value in (("voice", voice), ("instructions", native.get("instructions"))):
        if value is not None and not isinstance(value, str):
            raise RequestError(path=name, detail="Expected a text.", remedy="Send a string.")
    request = SpeechRequest(
        text=native.get("input") or "",
        voice=voice if isinstance(voice, str) else None,
        file_format=_read_format(native.get("response_format")),
        speed=native.get("speed"),
        instructions=native.get("instructions"),
    )
    return Translation(request, ledger.losses)


def _read_format(value: Any) -> str:
    """Return the wanted format; OpenAI's default is MP3."""
    if value is None:
        return "mp3"
    if not isinstance(value, str) or value not in MEDIA_TYPES:
        raise RequestError(
            path="response_format",
            detail=f"Unknown format {value!r}.",
            remedy=f"Known: {', '.join(MEDIA_TYPES)}.",
        )
    return value


def nativize_result(speech: Speech, native: Mapping[str, Any], model: str) -> EncodedBody:
    """Return the audio for a client."""
    return EncodedBody(speech.data, speech.audio.mime_type)


def produce_writer(native: Mapping[str, Any]) -> PieceWriter:
    """Make the writer of the audio as it arrives: as bytes, or as events."""
    if native.get("stream_format") == "sse":
        return _EventWriter()
    return _AudioWriter(MEDIA_TYPES[_read_format(native.get("response_format"))])


class _AudioWriter:
    """Passes audio on."""

    def __init__(self, content_type: str) -> None:
        self.content_type = content_type

    def feed(self, piece: Piece) -> bytes:
        """Return the audio."""
        return piece if isinstance(piece, bytes) else piece.encode()

    def finish(self, result: Speech) -> bytes:
        """Return nothing: all audio was sent."""
        return b""


class _EventWriter:
    """Writes audio as server-sent events."""

    content_type = "text/event-stream; charset=utf-8"

    def feed(self, piece: Piece) -> bytes:
        """Return the event of a piece."""
        data = piece if isinstance(piece, bytes) else piece.encode()
        return write_event({"type": "speech.audio.delta", "audio": encode_bytes(data)})

    def finish(self, result: Speech) -> bytes:
        """Return the last event, with the usage."""
        usage = result.usage
        counts = (0, 0) if usage is None else (usage.total_input_tokens, usage.total_output_tokens)
        taken, made = (count or 0 for count in counts)
        used = {"input_tokens": taken, "output_tokens": made, "total_tokens": taken + made}
        return write_event({"type": "speech.audio.done", "usage": used})


def write_event(event: JsonObject) -> bytes:
    """Return a server-sent event, named by its type."""
    name = str(event["type"]).encode()
    return b"event: " + name + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"


CLIENT_FORMAT: Final = ClientFormat[SpeechRequest, Speech](
    protocol=PROTOCOL,
    path="/audio/speech",
    read=normalize,
    write=nativize_result,
    produce_writer=produce_writer,
)
