"""Speech of Gemini's models: ``generateContent`` with the response modality ``AUDIO``.

Source: types of the package google-genai 3.6.1 (SpeechConfig), and
https://ai.google.dev/gemini-api/docs/speech-generation, 2026-11-29.
"""

from __future__ import annotations

import re
from typing import Any, Final

from vibe_llms.dialects.calls import CallFormat, NativeCall, StreamFormat
from vibe_llms.dialects.embeddings.results import decode
from vibe_llms.dialects.generate_content.calling.usage import normalize_usage
from vibe_llms.dialects.illustrations.google import (
    GeneratedContent,
    InlineData,
    explain_missing_media,
)
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.payloads import decode_base64
from vibe_llms.dialects.speeches.audio import PCM_RATE, SampleDecoder
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.speeches import Speech, SpeechRequest
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "generate_content"
DEFAULT_VOICE: Final = "Kore"
_RATE: Final = re.compile(r"rate=(\d{4,6})")


def produce_call_format(path: str, streaming_path: str) -> CallFormat[SpeechRequest, Speech]:
    """Return the call format for one model.

    Args:
        path: The path of its method ``generateContent``.
        streaming_path: The path of its method ``streamGenerateContent``.
    """

    def write_stream(request: SpeechRequest, model: ModelDescriptor) -> Translation[Any]:
        translation = nativize(request, model)
        native = NativeCall(body=translation.value, path=streaming_path)
        return Translation(native, translation.losses)

    stream = StreamFormat(write=write_stream, framing="sse", produce_decoder=SpeechDecoder)
    return CallFormat(path=path, max_inputs=1, write=nativize, read=read, stream=stream)


def nativize(request: SpeechRequest, model: ModelDescriptor) -> Translation[JsonObject]:
    """Write the body of a request."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    text = request.text
    if request.instructions is not None:
        text = f"{request.instructions}:\n{text}"
        ledger.coerce("instructions", "they precede the text: Gemini has no field for them")
    if request.speed is not None:
        ledger.drop("speed", "Gemini has no field for it; describe it in the instructions")
    if request.file_format not in (None, "wav", "pcm"):
        ledger.coerce("file_format", f"Gemini has no {request.file_format}; sent as wav")
    voice = {"prebuiltVoiceConfig": {"voiceName": request.voice or DEFAULT_VOICE}}
    speech: dict[str, Any] = {"voiceConfig": voice}
    if request.language is not None:
        speech["languageCode"] = request.language
    configuration = {"responseModalities": ["AUDIO"], "speechConfig": speech, **request.options}
    contents: Any = [{"role": "user", "parts": [{"text": text}]}]
    return Translation({"contents": contents, "generationConfig": configuration}, ledger.losses)


def read(answer: bytes, request: SpeechRequest, model: ModelDescriptor) -> Speech:
    """Read an answer. Raises ValueError or ProviderError."""
    decoder = SpeechDecoder(request, model)
    decoder.feed(answer)
    return decoder.finish()


class SpeechDecoder:
    """Decodes the events of a stream, or one complete answer."""

    def __init__(self, request: SpeechRequest, model: ModelDescriptor) -> None:
        self._request, self._model = request, model
        self._samples: SampleDecoder | None = None
        self._usage: Usage | None = None
        self._facts: dict[str, str | None] = {}
        self._reason = ""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the audio in an event. Raises ValueError."""
        parsed: GeneratedContent = decode(data, GeneratedContent)
        if parsed.usage_metadata is not None:
            self._usage = normalize_usage(parsed.usage_metadata)
        self._reason = parsed.find_reason() or self._reason
        self._facts = {"reported_model": parsed.model_version, "response_id": parsed.response_id}
        return [piece for each in parsed.list_data() for piece in self._read(each)]

    def _read(self, inline: InlineData) -> list[bytes]:
        data = decode_base64(inline.data)
        if not data:
            raise ValueError("its audio is not Base64")
        if data.startswith(b"RIFF"):  # a whole file
            data = data[44:]
        if self._samples is None:
            found = _RATE.search(inline.mime_type)
            self._samples = SampleDecoder(
                self._request,
                self._model,
                PROTOCOL,
                rate=int(found[1]) if found else PCM_RATE,
                is_raw=self._request.file_format == "pcm",
            )
        return self._samples.feed(data)

    def finish(self) -> Speech:
        """Return the whole audio. Raises ValueError or ProviderError if there is none."""
        if self._samples is None:
            raise explain_missing_media(self._model.provider, self._reason, "audio")
        return self._samples.finish(self._usage, **self._facts)
