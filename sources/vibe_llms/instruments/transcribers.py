"""A transcriber by its name: the words of audio.

``Transcriber`` is for asynchronous code; ``SyncTranscriber`` wraps it for synchronous code.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard, cast

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.sync_faces import SyncFace, blocking, constructed_like, entering
from vibe_llms.instruments.genera import CallInstrument, SyncPieceStream
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.transcripts import (
    LiveTranscriptionRequest,
    Timestamps,
    Transcript,
    TranscriptionRequest,
)
from vibe_llms.models.genera import Genus

if TYPE_CHECKING:
    from vibe_llms.foundation.json_types import JsonValue
    from vibe_llms.providers.piece_streams import PieceStream

AnyAudio: TypeAlias = "AudioContent | str | PathLike[str]"
"""Audio: a content, or the path of a file."""

LiveBytes: TypeAlias = AsyncIterable[bytes] | Iterable[bytes]
"""Audio that is still being recorded: its bytes, as they arrive."""

_FILE_BYTES: Final = 2_000_000_000


class Transcriber(CallInstrument):
    """A model that writes down speech.

    Use it as an asynchronous context manager, or close it at the end.

    Args:
        address: Address of the model, such as ``openai:gpt-4o-transcribe``; empty for the
            configured transcriber.
        language: Code of the language, such as ``de``; most models detect it.
        prompt: Words that may occur, or the text before the audio.
        translates: Translate the words into English.
        timestamps: ``segment`` or ``word`` to return their times.
        temperature: Randomness of the model.
        options: Further fields of the vendor's request, sent unchanged.
        settings: ``application``, ``strict``, ``listener`` and ``cache``; see
            :class:`.CallInstrument`.
    """

    genus = Genus.TRANSCRIBER

    def __init__(
        self,
        address: str = "",
        *,
        language: str | None = None,
        prompt: str | None = None,
        translates: bool = False,
        timestamps: Timestamps | None = None,
        temperature: float | None = None,
        options: Mapping[str, JsonValue] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(address, **settings)
        self.language = language
        self.prompt = prompt
        self.translates = translates
        self.timestamps: Timestamps | None = timestamps
        self.temperature = temperature
        self.options = options or {}

    async def transcribe(self, audio: AnyAudio) -> Transcript:
        """Return the words of audio.

        Args:
            audio: A content, whose bytes may be in the content store, or the path of a file.

        Raises:
            RequestError: The file cannot be read.
            TranslationLossError: The translation loses something, and the transcriber is strict.
            ConfigurationError: The transcriber has no address.
            ConverseError: The request failed.
        """
        request = await self._produce_request(audio)
        model = await self.access()
        transcript: Transcript = await model.call(request)
        return transcript

    @asynccontextmanager
    async def stream(
        self,
        audio: AnyAudio | LiveBytes,
        *,
        sample_rate: int | None = None,
        interim: bool = False,
    ) -> AsyncIterator[PieceStream[Transcript]]:
        """Transcribe audio, and yield the text as it arrives, if the vendor streams it.

        Audio that is still being recorded is an iterable of bytes. It is sent as it arrives, if the
        vendor supports that; otherwise it is sent once it is complete, and the losses of the result
        say so::

            async with transcriber.stream(microphone(), sample_rate=16_000) as stream:
                async for text in stream:
                    print(text, end="", flush=True)

        Leaving the context closes the connection.

        Args:
            audio: See :meth:`transcribe`; or an iterable of bytes, asynchronous or not. The type of
                the audio is detected from its first bytes.
            sample_rate: Samples per second of live audio without a header: samples with 16 bits,
                little endian, one channel.
            interim: Yield texts of live audio that may still change, too, each as an
                :class:`.InterimText`. Texts of other audio are always final.

        Raises:
            ConverseError: As for :meth:`transcribe`; also raised by the iteration.
        """
        from vibe_llms.providers.live_streams import open_live
        from vibe_llms.providers.piece_streams import open_stream

        if not _is_live(audio):
            request = await self._produce_request(cast(AnyAudio, audio))
            model = await self.access()
            async with open_stream(model, request) as stream:
                yield stream
            return
        from vibe_llms.instruments.live_inputs import LiveAudio

        async with LiveAudio(audio, sample_rate) as live:
            model = await self.access()
            await live.detect()
            live_request = LiveTranscriptionRequest(
                mime_type=live.mime_type,
                sample_rate=live.sample_rate,
                interim=interim,
                **self._settings,
            )
            async with open_live(model, live_request, live) as stream:
                yield stream

    @property
    def _settings(self) -> dict[str, Any]:
        return {
            "language": self.language,
            "prompt": self.prompt,
            "translates": self.translates,
            "timestamps": self.timestamps,
            "temperature": self.temperature,
            "options": self.options,
            "strict": self.strict,
        }

    async def _produce_request(self, audio: AnyAudio) -> TranscriptionRequest:
        content = audio
        if isinstance(audio, str | PathLike):
            content = await asyncio.to_thread(_read_file, audio)
        request = TranscriptionRequest(
            audio=content,  # type: ignore[arg-type]  # checked there
            **self._settings,
        )
        loaded = await self.load(request.audio)
        if loaded is request.audio:
            return request
        import attrs

        return attrs.evolve(request, audio=loaded)


def _is_live(audio: AnyAudio | LiveBytes) -> TypeGuard[LiveBytes]:
    """Return whether audio is an iterable of bytes."""
    is_whole = isinstance(audio, AudioContent | str | PathLike | bytes | bytearray)
    return isinstance(audio, AsyncIterable | Iterable) and not is_whole


def _read_file(path: str | PathLike[str]) -> AudioContent:
    """Read a file. Raises RequestError."""
    from pathlib import Path

    from vibe_llms.foundation.files import PIPE_BYTES, read_file

    try:
        data = read_file(Path(path), _FILE_BYTES, pipe_bytes=PIPE_BYTES)
    except OSError as error:
        raise RequestError(
            path="audio",
            detail=f"Cannot read {path}: {error.strerror or error}.",
            remedy="Name a file with audio.",
        ) from error
    return AudioContent(data=data)


class SyncTranscriber(SyncFace[Transcriber]):
    """A transcriber for synchronous code, with the arguments of :class:`Transcriber`.

    It also works inside a running event loop. Use it as a context manager, or close it at the end.
    """

    @constructed_like(Transcriber)
    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(Transcriber(*given, **settings))

    transcribe = blocking(Transcriber.transcribe)
    stream = entering(Transcriber.stream, SyncPieceStream)
    close = blocking(Transcriber.close)
