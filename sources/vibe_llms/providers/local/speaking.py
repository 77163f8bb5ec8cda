"""The speaker ``espeak``: eSpeak NG, run in this process.

The package ``espeakng-loader`` has the library in C and its data. eSpeak NG builds speech of rules,
so that it is small and fast, knows many languages, and sounds like a machine.

Source: https://github.com/espeak-ng/espeak-ng, ``speak_lib.h`` of version 1.52.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from vibe_llms.dialects.calls import Piece
from vibe_llms.dialects.speeches.audio import SampleDecoder
from vibe_llms.exceptions import DependencyError, RequestError
from vibe_llms.foundation.optional_packages import advise_packages
from vibe_llms.messages.losses import Loss, LossKind, refuse_losses
from vibe_llms.messages.speeches import Speech, SpeechRequest
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.piece_streams import PieceStream

DEFAULT_VOICE: Final = "en-us"
_WORDS_PER_MINUTE: Final = 175
_SLOWEST, _FASTEST = 80, 450
_SYNCHRONOUS: Final = 2
_PIECE_MILLISECONDS: Final = 200
_NO_EXIT: Final = 0x8000
_RATE: Final = 1
_UTF8: Final = 1
_CHARACTERS: Final = 1

_LOCK: Final = threading.Lock()
"""The library has one state for the whole process."""

_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)


class LocalSpeaker:
    """The speaker; see :class:`vibe_llms.providers.interfaces.CallModel`.

    Args:
        load: Returns the library; blocks.
    """

    max_inputs = 1
    max_bytes = 1_000_000

    def __init__(self, descriptor: ModelDescriptor, load: Callable[[], EspeakLibrary]) -> None:
        self._descriptor = descriptor
        self._load = load

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""
        return self._descriptor

    async def call(self, request: SpeechRequest) -> Speech:
        """Speak a text. Raises RequestError, DependencyError or TranslationLossError."""
        async with self.stream(request) as stream:
            return await stream.result()

    def stream(self, request: SpeechRequest) -> PieceStream[Speech]:
        """Speak a text, and return the audio while it is made. Raises TranslationLossError."""
        losses = _survey_losses(request)
        if request.strict:
            refuse_losses(losses)
        return PieceStream(self._speak(request, losses))

    async def _speak(
        self, request: SpeechRequest, losses: Sequence[Loss]
    ) -> AsyncIterator[Piece | Speech]:
        library = await asyncio.to_thread(self._load)
        loop = asyncio.get_running_loop()
        samples: asyncio.Queue[bytes | None] = asyncio.Queue()
        is_left = threading.Event()

        def receive(data: bytes) -> bool:
            loop.call_soon_threadsafe(samples.put_nowait, data)
            return not is_left.is_set()

        def run() -> None:
            try:
                library.speak(request.text, _choose_voice(request), _choose_rate(request), receive)
            finally:
                loop.call_soon_threadsafe(samples.put_nowait, None)

        decoder = SampleDecoder(
            request,
            self._descriptor,
            "local",
            rate=library.rate,
            is_raw=request.file_format == "pcm",
        )
        task = asyncio.create_task(asyncio.to_thread(run))
        try:
            while (data := await samples.get()) is not None:
                for piece in decoder.feed(data):
                    yield piece
        finally:
            is_left.set()
            await asyncio.shield(task)
        try:
            speech = decoder.finish()
        except ValueError:
            raise RequestError(
                path="text", detail="The text has no words.", remedy="Give words to speak."
            ) from None
        yield Speech(audio=speech.audio, origin=speech.origin, losses=tuple(losses))


def _survey_losses(request: SpeechRequest) -> list[Loss]:
    losses = []
    if request.instructions is not None:
        reason = "eSpeak has no field for them"
        losses.append(Loss(kind=LossKind.DROPPED, path="instructions", reason=reason))
    if request.file_format not in (None, "wav", "pcm"):
        reason = f"eSpeak has no format {request.file_format!r}; sent as wav"
        losses.append(Loss(kind=LossKind.COERCED, path="file_format", reason=reason))
    return losses


def _choose_voice(request: SpeechRequest) -> str:
    """Return a voice, such as ``de``, or a language with a variant, such as ``de+f3``."""
    if request.voice is not None and request.language is not None:
        return f"{request.language}+{request.voice}"
    return request.voice or request.language or DEFAULT_VOICE


def _choose_rate(request: SpeechRequest) -> int:
    wanted = round(_WORDS_PER_MINUTE * (request.speed or 1))
    return min(max(wanted, _SLOWEST), _FASTEST)


class EspeakLibrary:
    """The library in C, which speaks one text at a time.

    Args:
        path: The library. The data are in its folder, or in the subfolder ``espeakng_loader``.

    Raises:
        DependencyError: The library cannot be loaded.
    """

    def __init__(self, path: Path) -> None:
        places = (path.parent, path.parent / "espeakng_loader")
        folder = next((each for each in places if (each / "espeak-ng-data").is_dir()), None)
        try:
            if folder is None:
                raise OSError("its data are missing")
            self._library: Any = ctypes.CDLL(str(path))
        except OSError as error:
            raise DependencyError(
                package="espeakng-loader",
                detail=f"The library {path} cannot be loaded: {error}.",
                remedy=advise_packages("espeakng-loader"),
            ) from error
        with _LOCK:
            self.rate: int = self._library.espeak_Initialize(
                _SYNCHRONOUS, _PIECE_MILLISECONDS, str(folder).encode(), _NO_EXIT
            )

    def speak(self, text: str, voice: str, rate: int, receive: Callable[[bytes], bool]) -> None:
        """Speak a text. Blocks.

        Args:
            rate: Words per minute.
            receive: Takes samples of 16 bits; returns ``False`` to stop.

        Raises:
            RequestError: The voice is unknown.
        """

        def take(samples: Any, count: int, events: Any) -> int:
            if not samples or count <= 0:
                return 0
            return 0 if receive(ctypes.string_at(samples, count * 2)) else 1

        callback = _Callback(take)
        data = text.replace("\0", " ").encode("utf-8", "replace") + b"\0"
        with _LOCK:
            library = self._library
            if library.espeak_SetVoiceByName(voice.encode()) != 0:
                raise RequestError(
                    path="voice",
                    detail=f"Unknown voice {voice!r}.",
                    remedy="Give a language, such as en-us or de, or one with a variant: de+f3.",
                )
            library.espeak_SetSynthCallback(callback)
            library.espeak_SetParameter(_RATE, rate, 0)
            library.espeak_Synth(data, len(data), 0, _CHARACTERS, 0, _UTF8, None, None)

    def close(self) -> None:
        """Do nothing: the library is shared by the process."""
