"""Transcripts of audio, and the request for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias, get_args

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.call_results import CallResult
from vibe_llms.messages.contents import AudioContent

Timestamps: TypeAlias = Literal["segment", "word"]
"""The parts of a transcript whose times are wanted."""

TIMESTAMPS: Final[tuple[Timestamps, ...]] = get_args(Timestamps)


def _ensure_audio(audio: AudioContent) -> AudioContent:
    value: object = audio
    if not isinstance(value, AudioContent):
        detail = f"Expected an AudioContent, not {type(value).__name__}."
        remedy = "Wrap the bytes: AudioContent(data=…)."
        raise RequestError(path="audio", detail=detail, remedy=remedy)
    return audio


@frozen(kw_only=True)
class TranscriptionRequest:
    """A request for a transcript.

    Attributes:
        audio: The audio.
        language: Code of its language, such as ``de``; most models detect it.
        prompt: Words that may occur, or the text before the audio.
        translates: Translate the words into English.
        timestamps: Return the times of segments or words; ``None`` for none.
        temperature: Randomness of the model.
        options: Further fields of the vendor's request, sent unchanged.
        strict: Raise an error if the translation loses anything.

    Raises:
        RequestError: A field is invalid.
    """

    audio: AudioContent = attrs.field(converter=_ensure_audio)
    language: str | None = None
    prompt: str | None = None
    translates: bool = False
    timestamps: Timestamps | None = None
    temperature: float | None = None
    options: Mapping[str, JsonValue] = attrs.field(factory=dict, hash=False)
    strict: bool = False

    def __attrs_post_init__(self) -> None:
        if self.timestamps is not None and self.timestamps not in TIMESTAMPS:
            detail = f"Unknown timestamps {self.timestamps!r}."
            remedy = f"Known: {', '.join(TIMESTAMPS)}."
            raise RequestError(path="timestamps", detail=detail, remedy=remedy)


@frozen(kw_only=True)
class TranscriptPart:
    """A segment or a word of a transcript.

    Attributes:
        start: Beginning of the part, in seconds.
        end: End of the part, in seconds.
        text: Text of the part.
        speaker: The vendor's name of the speaker; ``None`` if unknown.
    """

    start: float
    end: float
    text: str
    speaker: str | None = None


def _ensure_parts(parts: Iterable[TranscriptPart]) -> tuple[TranscriptPart, ...]:
    return tuple(parts)


@frozen(kw_only=True)
class Transcript(CallResult):
    """The words of audio.

    Attributes:
        text: The whole text.
        segments: Segments of the text with their times, if the vendor reports them.
        words: Words of the text with their times, if the vendor reports them.
        language: The language, as the vendor names it.
        seconds: Length of the audio.
    """

    text: str
    segments: tuple[TranscriptPart, ...] = attrs.field(default=(), converter=_ensure_parts)
    words: tuple[TranscriptPart, ...] = attrs.field(default=(), converter=_ensure_parts)
    language: str | None = None
    seconds: float | None = None

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text in one piece, as a stream."""
        return (self.text,) if self.text else ()
