"""Speech of ElevenLabs: ``/v1/text-to-speech``.

Source: the package elevenlabs 2.78.0 (text_to_speech/raw_client.py, types/voice_settings.py),
2026-11-29.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final
from urllib.parse import quote

from vibe_llms.dialects.calls import CallFormat, NativeCall, PieceDecoder, StreamFormat
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.speeches.audio import MEDIA_TYPES, AudioDecoder, SampleDecoder
from vibe_llms.dialects.speeches.openai import choose_format, tell_format
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.speeches import Speech, SpeechRequest
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "elevenlabs"
DEFAULT_VOICE: Final = "JBFqnCBsd6RMkjVDRZzb"
"""The voice of the examples in the vendor's manual, which every account has."""
_PCM: Final = "pcm_24000"
FORMATS: Final = {"mp3": "mp3_44100_128", "wav": _PCM, "pcm": _PCM, "opus": "opus_48000_128"}
"""The vendor's word for each format. For WAV, samples are requested and get a header."""


def produce_call_format() -> CallFormat[SpeechRequest, Speech]:
    """Return the call format."""
    stream = StreamFormat(
        write=partial(nativize, suffix="/stream"), produce_decoder=produce_decoder
    )
    return CallFormat(
        path="/v1/text-to-speech", max_inputs=1, write=nativize, read=read, stream=stream
    )


def nativize(
    request: SpeechRequest, model: ModelDescriptor, suffix: str = ""
) -> Translation[NativeCall]:
    """Write a request.

    Args:
        suffix: End of the path.
    """
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    tell_format(request, FORMATS, ledger)
    if request.instructions is not None:
        ledger.drop("instructions", "ElevenLabs has no field for them")
    body: dict[str, Any] = {"text": request.text, "model_id": model.name}
    if request.language is not None:
        body["language_code"] = request.language
    if request.speed is not None:
        body["voice_settings"] = {"speed": request.speed}
    voice = quote(request.voice or DEFAULT_VOICE, safe="")
    output = FORMATS[choose_format(request.file_format, FORMATS)]
    path = f"/v1/text-to-speech/{voice}{suffix}?output_format={output}"
    return Translation(NativeCall(body={**body, **request.options}, path=path), ledger.losses)


def produce_decoder(request: SpeechRequest, model: ModelDescriptor) -> PieceDecoder[Speech]:
    """Make the decoder of one answer."""
    chosen = choose_format(request.file_format, FORMATS)
    if FORMATS[chosen] == _PCM:
        return SampleDecoder(request, model, PROTOCOL, is_raw=chosen == "pcm")
    return AudioDecoder(request, model, MEDIA_TYPES[chosen], PROTOCOL)


def read(answer: bytes, request: SpeechRequest, model: ModelDescriptor) -> Speech:
    """Read an answer. Raises ValueError."""
    decoder = produce_decoder(request, model)
    decoder.feed(answer)
    return decoder.finish()
