"""Speech: audio of a text, and the request for it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.call_results import CallResult
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.texts import ensure_text


def _ensure_text(text: str) -> str:
    return ensure_text(text, "text")


@frozen(kw_only=True)
class SpeechSettings:
    """The fields that all requests for speech have; see :class:`SpeechRequest`."""

    voice: str | None = None
    file_format: str | None = None
    speed: float | None = None
    instructions: str | None = None
    language: str | None = None
    options: Mapping[str, JsonValue] = attrs.field(factory=dict, hash=False)
    strict: bool = False

    def __attrs_post_init__(self) -> None:
        speed: object = self.speed
        if speed is None:
            return
        is_number = isinstance(speed, int | float) and not isinstance(speed, bool)
        if not is_number or not 0 < self.speed <= 10:  # type: ignore[operator]
            detail = f"The speed is {speed!r}."
            remedy = "Give a number up to 10; 1 is normal."
            raise RequestError(path="speed", detail=detail, remedy=remedy)


@frozen(kw_only=True)
class SpeechRequest(SpeechSettings):
    """A request for speech.

    Attributes:
        text: The text to speak.
        voice: The vendor's name or id of a voice; ``None`` for its default.
        file_format: Format of the audio, such as ``mp3``, ``wav``, ``opus``, ``flac``, ``aac`` or
            ``pcm`` (16 bits, little endian, one channel); ``None`` for the vendor's default.
        speed: 1 is normal, 2 twice as fast; ``None`` for the default.
        instructions: How to speak, such as the mood.
        language: Code of the language, such as ``de``; most models detect it.
        options: Further fields of the vendor's request, sent unchanged.
        strict: Raise an error if the translation loses anything.

    Raises:
        RequestError: The text is blank, or a field is invalid.
    """

    text: str = attrs.field(converter=_ensure_text)


@frozen(kw_only=True)
class LiveSpeechRequest(SpeechSettings):
    """A request for speech of a text that is still being written.

    Attributes:
        voice: The vendor's name or id of a voice; ``None`` for its default.
        file_format: Format of the audio, such as ``mp3`` or ``wav``; ``None`` for the default.
        speed: 1 is normal, 2 twice as fast; ``None`` for the default.
        instructions: How to speak, such as the mood.
        language: Code of the language, such as ``de``; most models detect it.
        options: Further fields of the vendor's request, sent unchanged.
        strict: Raise an error if the translation loses anything, or the vendor takes only complete
            texts.

    Raises:
        RequestError: A field is invalid.
    """

    def complete(self, text: str) -> SpeechRequest:
        """Return the request for a complete text. Raises RequestError if it is blank."""
        names = [field.name for field in attrs.fields(SpeechSettings)]
        return SpeechRequest(text=text, **{name: getattr(self, name) for name in names})


@frozen(kw_only=True)
class Speech(CallResult):
    """Audio of a text.

    Attributes:
        audio: The audio, with the text as its transcript.
    """

    audio: AudioContent

    @property
    def data(self) -> bytes:
        """The bytes of the audio."""
        return self.audio.data or b""

    @property
    def pieces(self) -> tuple[bytes, ...]:
        """The audio in one piece, as a stream."""
        return (self.data,)
