"""A speaker by its name: audio of a text.

``Speaker`` is for asynchronous code; ``SyncSpeaker`` wraps it for synchronous code.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.sync_faces import SyncFace, blocking, constructed_like, entering
from vibe_llms.instruments.genera import CallInstrument, SyncPieceStream
from vibe_llms.messages.speeches import LiveSpeechRequest, Speech, SpeechRequest
from vibe_llms.models.genera import Genus

if TYPE_CHECKING:
    from vibe_llms.foundation.json_types import JsonValue
    from vibe_llms.providers.piece_streams import PieceStream


LiveText: TypeAlias = AsyncIterable[str] | Iterable[str]
"""A text that is still being written: its parts, as they arrive."""


class Speaker(CallInstrument):
    """A model that speaks texts.

    Use it as an asynchronous context manager, or close it at the end.

    Args:
        address: Address of the model, such as ``openai:gpt-4o-mini-tts``; empty for the configured
            speaker.
        voice: The vendor's name or id of a voice; ``None`` for its default.
        file_format: Format of the audio, such as ``mp3``, ``wav``, ``opus``, ``flac``, ``aac`` or
            ``pcm``; ``None`` for the vendor's default.
        speed: 1 is normal, 2 twice as fast; ``None`` for the default.
        instructions: How to speak, such as the mood.
        language: Code of the language, such as ``de``; most models detect it.
        options: Further fields of the vendor's request, sent unchanged.
        settings: ``application``, ``strict``, ``listener`` and ``cache``; see
            :class:`.CallInstrument`.
    """

    genus = Genus.SPEAKER

    def __init__(
        self,
        address: str = "",
        *,
        voice: str | None = None,
        file_format: str | None = None,
        speed: float | None = None,
        instructions: str | None = None,
        language: str | None = None,
        options: Mapping[str, JsonValue] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(address, **settings)
        self.voice = voice
        self.file_format = file_format
        self.speed = speed
        self.instructions = instructions
        self.language = language
        self.options = options or {}

    async def speak(self, text: str) -> Speech:
        """Speak a text, and return the whole audio.

        Raises:
            RequestError: The text is blank, or the vendor needs the name of a voice.
            TranslationLossError: The translation loses something, and the speaker is strict.
            ConfigurationError: The speaker has no address.
            ConverseError: The request failed.
        """
        request = self._produce_request(text)
        model = await self.access()
        speech: Speech = await model.call(request)
        return speech

    @asynccontextmanager
    async def stream(self, text: str | LiveText) -> AsyncIterator[PieceStream[Speech]]:
        """Speak a text, and yield the audio as it arrives.

        A text that is still being written, such as a model's answer, is an iterable of strings. The
        vendor gets it as it arrives, if it supports that; otherwise each sentence is a request, and
        the losses of the result say so.

        ::

            async with speaker.stream("Good morning.") as stream:
                async for data in stream:
                    player.write(data)
                speech = await stream.result()

        Leaving the context closes the connection.

        Args:
            text: A text, or an iterable of its parts, asynchronous or not.

        Raises:
            ConverseError: As for :meth:`speak`; also raised by the iteration.
        """
        from vibe_llms.instruments.live_inputs import iterate
        from vibe_llms.providers.live_streams import open_live
        from vibe_llms.providers.piece_streams import open_stream

        if isinstance(text, str) or not isinstance(text, AsyncIterable | Iterable):
            request = self._produce_request(text)
            async with open_stream(await self.access(), request) as stream:
                yield stream
            return
        live_request = LiveSpeechRequest(**self._settings)
        async with aclosing(cast(Any, iterate(text))) as pieces:
            checked = _check_texts(pieces)
            async with open_live(await self.access(), live_request, checked) as stream:
                yield stream

    def _produce_request(self, text: str) -> SpeechRequest:
        return SpeechRequest(text=text, **self._settings)

    @property
    def _settings(self) -> dict[str, Any]:
        return {
            "voice": self.voice,
            "file_format": self.file_format,
            "speed": self.speed,
            "instructions": self.instructions,
            "language": self.language,
            "options": self.options,
            "strict": self.strict,
        }


async def _check_texts(pieces: AsyncIterable[Any]) -> AsyncIterator[str]:
    """Yield the parts of a text. Raises RequestError for anything else."""
    async for piece in pieces:
        if not isinstance(piece, str):
            detail = f"A part of the text is {type(piece).__name__}, not a string."
            raise RequestError(path="text", detail=detail, remedy="Yield strings.")
        yield piece


class SyncSpeaker(SyncFace[Speaker]):
    """A speaker for synchronous code, with the arguments of :class:`Speaker`.

    It also works inside a running event loop. Use it as a context manager, or close it at the end.
    """

    @constructed_like(Speaker)
    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(Speaker(*given, **settings))

    speak = blocking(Speaker.speak)
    stream = entering(Speaker.stream, SyncPieceStream)
    close = blocking(Speaker.close)
