"""Shared parts of speech of a text that is still being written."""

from __future__ import annotations

from typing import Any

from vibe_llms.dialects.speeches.audio import MEDIA_TYPES, PCM_RATE, produce_speech, wrap_samples
from vibe_llms.foundation.wav import begin_wav
from vibe_llms.messages.speeches import LiveSpeechRequest, Speech
from vibe_llms.models.descriptors import ModelDescriptor


class SpeechBuilder:
    """Joins the audio of a live call.

    Args:
        file_format: Format of the audio that the caller receives; for ``wav``, the vendor sends
            samples, which get a header.

    Attributes:
        texts: The spoken texts so far.
    """

    def __init__(
        self, request: LiveSpeechRequest, model: ModelDescriptor, protocol: str, file_format: str
    ) -> None:
        self._request, self._model, self._protocol = request, model, protocol
        self._format = file_format
        self._pieces: list[bytes] = []
        self.texts: list[str] = []

    def add(self, data: bytes) -> list[bytes]:
        """Add audio, and return it as pieces."""
        if not data:
            return []
        is_first = not self._pieces
        self._pieces.append(data)
        return [begin_wav(PCM_RATE) + data] if is_first and self._format == "wav" else [data]

    def build(self) -> Speech:
        """Return the whole audio. Raises ValueError if there is none."""
        data, kind = b"".join(self._pieces), MEDIA_TYPES[self._format]
        if self._format == "wav":
            data, kind = wrap_samples(data, PCM_RATE, is_raw=False)
        request: Any = self._request.complete("".join(self.texts))
        return produce_speech(data, kind, request, self._model, self._protocol)
