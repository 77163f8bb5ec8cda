"""The speaker ``tones`` and the transcriber ``notes``, for tests and demonstrations.

The speaker plays a tone for each byte of a text, and the transcriber reads it from the samples.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Final

from vibe_llms.dialects.calls import Piece, produce_origin
from vibe_llms.dialects.payloads import read_bytes
from vibe_llms.dialects.speeches.audio import PCM_RATE, SampleDecoder
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Loss, LossKind, refuse_losses
from vibe_llms.messages.speeches import Speech, SpeechRequest
from vibe_llms.messages.transcripts import (
    InterimText,
    LiveTranscriptionRequest,
    Transcript,
    TranscriptionRequest,
    TranscriptionSettings,
    TranscriptPart,
)
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
        losses = _survey_losses(request)

        async def load() -> AsyncIterator[bytes]:
            data = read_bytes(request.audio, "audio")
            yield data[_HEADER:] if data.startswith(b"RIFF") else data

        return PieceStream(self._hear(request, losses, load()))

    def stream_live(
        self, request: LiveTranscriptionRequest, pieces: AsyncIterable[Any]
    ) -> PieceStream[Transcript]:
        """Return each word as soon as it has been played. Raises TranslationLossError."""
        losses = _survey_losses(request)
        return PieceStream(self._hear(request, losses, pieces, interim=request.interim))

    async def _hear(
        self,
        request: TranscriptionSettings,
        losses: list[Loss],
        pieces: AsyncIterable[bytes],
        *,
        interim: bool = False,
    ) -> AsyncIterator[Piece | InterimText | Transcript]:
        tones, size, heard = _ToneReader(), 0, 0
        words: list[str] = []
        async for piece in pieces:
            size += len(piece)
            for word in tones.feed(piece):
                words.append(word)
                yield word
            if interim:
                yield InterimText(tones.rest)
        for word in tones.feed(b"", is_end=True):
            words.append(word)
            yield word
        parts, scale = [], _SAMPLES / PCM_RATE
        for word in words:
            start, heard = heard, heard + len(word.encode())
            parts.append(TranscriptPart(start=start * scale, end=heard * scale, text=word.strip()))
        usage = Usage(input_tokens=len(parts), output_tokens=len(parts))
        yield Transcript(
            text="".join(words),
            words=parts if request.timestamps == "word" else (),
            seconds=size / 2 / PCM_RATE,
            origin=produce_origin(self._descriptor, "scripted", usage),
            losses=losses,
        )


class _ToneReader:
    """Reads words from tones as they arrive.

    Attributes:
        rest: Beginning of a word that may continue.
    """

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._samples = b""
        self.rest = ""

    def feed(self, samples: bytes, *, is_end: bool = False) -> list[str]:
        """Return the words that are complete: the last one may continue."""
        self._samples += samples
        # A tone is known by its first sample.
        data = bytes(byte ^ 0x80 for byte in self._samples[1 :: _SAMPLES * 2])
        whole = len(self._samples) // (_SAMPLES * 2)
        self.rest += self._decoder.decode(data if is_end else data[:whole], final=is_end)
        self._samples = self._samples[whole * _SAMPLES * 2 :]
        words: list[str] = _WORD.findall(self.rest)
        if is_end:
            return words
        self.rest = words.pop() if words else self.rest
        return words


def _survey_losses(request: TranscriptionSettings) -> list[Loss]:
    """Return the losses of a request. Raises TranslationLossError if it is strict."""
    losses = []
    if request.translates:
        reason = "the transcriber does not translate"
        losses.append(Loss(kind=LossKind.DROPPED, path="translates", reason=reason))
    if request.strict:
        refuse_losses(losses)
    return losses
