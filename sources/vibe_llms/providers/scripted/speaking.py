"""The speaker ``tones`` and the transcriber ``notes``, for tests and demonstrations.

The speaker plays a tone for each byte of a text, and the transcriber reads it from the samples.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

from vibe_llms.dialects.calls import Piece, produce_origin
from vibe_llms.dialects.payloads import read_bytes
from vibe_llms.dialects.speeches.audio import PCM_RATE, SampleDecoder
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Loss, LossKind, refuse_losses
from vibe_llms.messages.speeches import Speech, SpeechRequest
from vibe_llms.messages.transcripts import Transcript, TranscriptionRequest, TranscriptPart
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.piece_streams import PieceStream

_SAMPLES: Final = 240
"""Samples of one byte: a hundredth of a second."""
_HEADER: Final = 44
_WORD: Final = re.compile(r"\S+\s*")


class _ScriptedModel:
    max_inputs = 1
    max_bytes = 100_000_000

    def __init__(self, descriptor: ModelDescriptor) -> None:
        self._descriptor = descriptor

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""
        return self._descriptor


class TonesSpeaker(_ScriptedModel):
    """A speaker that plays tones."""

    async def call(self, request: SpeechRequest) -> Speech:
        """Return the audio, as WAV or as samples. Raises TranslationLossError."""
        return await self.stream(request).result()

    def stream(self, request: SpeechRequest) -> PieceStream[Speech]:
        """Return the audio word by word. Raises TranslationLossError."""
        names = ("voice", "speed", "instructions", "language")
        reason = "the speaker only plays tones"
        losses = [
            Loss(kind=LossKind.DROPPED, path=name, reason=reason)
            for name in names
            if getattr(request, name) is not None
        ]
        if request.file_format not in (None, "wav", "pcm"):
            losses.append(
                Loss(kind=LossKind.COERCED, path="file_format", reason="the audio is a WAV file")
            )
        if request.strict:
            refuse_losses(losses)
        return PieceStream(self._play(request, losses))

    async def _play(
        self, request: SpeechRequest, losses: list[Loss]
    ) -> AsyncIterator[Piece | Speech]:
        is_raw = request.file_format == "pcm"
        decoder = SampleDecoder(request, self._descriptor, "scripted", is_raw=is_raw)
        for word in _WORD.findall(request.text):
            samples = b"".join(bytes((0, byte ^ 0x80)) * _SAMPLES for byte in word.encode())
            for piece in decoder.feed(samples):
                yield piece
        words = len(request.text.split())
        speech = decoder.finish(Usage(input_tokens=words, output_tokens=words))
        yield Speech(audio=speech.audio, origin=speech.origin, losses=losses)


class NotesTranscriber(_ScriptedModel):
    """A transcriber that reads the tones of :class:`TonesSpeaker`."""

    async def call(self, request: TranscriptionRequest) -> Transcript:
        """Return the text. Raises RequestError or TranslationLossError."""
        return await self.stream(request).result()

    def stream(self, request: TranscriptionRequest) -> PieceStream[Transcript]:
        """Return the text word by word. Raises RequestError or TranslationLossError."""
        losses = []
        if request.translates:
            reason = "the transcriber does not translate"
            losses.append(Loss(kind=LossKind.DROPPED, path="translates", reason=reason))
        if request.strict:
            refuse_losses(losses)
        return PieceStream(self._hear(request, losses))

    async def _hear(
        self, request: TranscriptionRequest, losses: list[Loss]
    ) -> AsyncIterator[Piece | Transcript]:
        data = read_bytes(request.audio, "audio")
        samples = data[_HEADER:] if data.startswith(b"RIFF") else data
        text = bytes(byte ^ 0x80 for byte in samples[1 :: _SAMPLES * 2]).decode(errors="replace")
        parts = []
        position = 0
        for word in _WORD.findall(text):
            yield word
            start, position = position, position + len(word.encode())
            scale = _SAMPLES / PCM_RATE
            parts.append(
                TranscriptPart(start=start * scale, end=position * scale, text=word.strip())
            )
        usage = Usage(input_tokens=len(parts), output_tokens=len(parts))
        yield Transcript(
            text=text,
            words=parts if request.timestamps == "word" else (),
            seconds=len(samples) / 2 / PCM_RATE,
            origin=produce_origin(self._descriptor, "scripted", usage),
            losses=losses,
        )
