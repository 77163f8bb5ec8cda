"""Formats of audio, and decoders of streamed audio."""

from __future__ import annotations

from typing import Any, Final

from vibe_llms.dialects.calls import produce_origin
from vibe_llms.foundation.wav import begin_wav, wrap_pcm
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.speeches import Speech, SpeechRequest
from vibe_llms.models.descriptors import ModelDescriptor

PCM_RATE: Final = 24_000
"""Samples per second of the format ``pcm`` at most vendors."""

MEDIA_TYPES: Final = {
    "aac": "audio/aac",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "pcm": f"audio/pcm;rate={PCM_RATE}",
    "wav": "audio/wav",
}
"""Media type of each format."""


def produce_speech(
    data: bytes,
    media_type: str,
    request: SpeechRequest,
    model: ModelDescriptor,
    protocol: str,
    usage: Usage | None = None,
    **facts: Any,
) -> Speech:
    """Return the result of a request.

    Args:
        media_type: The media type of the data.
        usage: The reported usage.
        facts: Further arguments of :func:`.produce_origin`.

    Raises:
        ValueError: There are no data.
    """
    if not data:
        raise ValueError("it has no audio")
    audio = AudioContent(data=data, mime_type=media_type, transcript=request.text)
    return Speech(audio=audio, origin=produce_origin(model, protocol, usage, **facts))


class AudioDecoder:
    """Decodes a stream that consists of the audio itself.

    Args:
        media_type: The media type of the audio.
        protocol: The protocol, for the origin of the result.
    """

    def __init__(
        self, request: SpeechRequest, model: ModelDescriptor, media_type: str, protocol: str
    ) -> None:
        self._request, self._model = request, model
        self._media_type, self._protocol = media_type, protocol
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Return the bytes as they arrive."""
        self._pieces.append(data)
        return [data]

    def finish(self) -> Speech:
        """Return the whole audio. Raises ValueError if there is none."""
        data = b"".join(self._pieces)
        return produce_speech(data, self._media_type, self._request, self._model, self._protocol)


class SampleDecoder:
    """Decodes a stream of samples, which become a WAV file unless samples are wanted.

    Args:
        rate: Samples per second.
        is_raw: Whether the samples are wanted without a header.
        protocol: The protocol, for the origin of the result.
    """

    def __init__(
        self,
        request: SpeechRequest,
        model: ModelDescriptor,
        protocol: str,
        *,
        rate: int = PCM_RATE,
        is_raw: bool = False,
    ) -> None:
        self._request, self._model, self._protocol = request, model, protocol
        self._rate, self._is_raw = rate, is_raw
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Return the samples as they arrive, with a header before the first samples."""
        is_first = not self._pieces and not self._is_raw
        self._pieces.append(data)
        return [begin_wav(self._rate) + data] if is_first else [data]

    def finish(self, usage: Usage | None = None, **facts: Any) -> Speech:
        """Return the whole audio. Raises ValueError if there is none."""
        samples = b"".join(self._pieces)
        data, kind = wrap_samples(samples, self._rate, is_raw=self._is_raw)
        return produce_speech(
            data, kind, self._request, self._model, self._protocol, usage, **facts
        )


def wrap_samples(samples: bytes, rate: int, *, is_raw: bool) -> tuple[bytes, str]:
    """Return samples, or a WAV file of them, with the media type. Raises ValueError for none."""
    if not samples:
        raise ValueError("it has no audio")
    if is_raw:
        return samples, f"audio/pcm;rate={rate}"
    return wrap_pcm(samples, rate), MEDIA_TYPES["wav"]
