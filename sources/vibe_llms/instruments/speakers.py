"""A speaker by its name: audio of a text.

``Speaker`` is for asynchronous code; ``SyncSpeaker`` wraps it for synchronous code.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from vibe_llms.foundation.sync_faces import SyncFace, blocking, constructed_like, entering
from vibe_llms.instruments.genera import CallInstrument, SyncPieceStream
from vibe_llms.messages.speeches import Speech, SpeechRequest
from vibe_llms.models.genera import Genus

if TYPE_CHECKING:
    from vibe_llms.foundation.json_types import JsonValue
    from vibe_llms.providers.piece_streams import PieceStream


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
    async def stream(self, text: str) -> AsyncIterator[PieceStream[Speech]]:
        """Speak a text, and yield the audio as it arrives.

        ::

            async with speaker.stream("Good morning.") as stream:
                async for data in stream:
                    player.write(data)
                speech = await stream.result()

        Leaving the context closes the connection.

        Raises:
            ConverseError: As for :meth:`speak`; also raised by the iteration.
        """
        request = self._produce_request(text)
        model = await self.access()
        from vibe_llms.providers.piece_streams import open_stream

        async with open_stream(model, request) as stream:
            yield stream

    def _produce_request(self, text: str) -> SpeechRequest:
        return SpeechRequest(
            text=text,
            voice=self.voice,
            file_format=self.file_format,
            speed=self.speed,
            instructions=self.instructions,
            language=self.language,
            options=self.options,
            strict=self.strict,
        )


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
