"""Transcripts of audio, and the request for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias, get_args

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.wav import wrap_pcm
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
class TranscriptionSettings:
    """The fields that all requests for transcripts have; see :class:`TranscriptionRequest`."""

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
class TranscriptionRequest(TranscriptionSettings):
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


def _ensure_sample_rate(rate: int | None) -> int | None:
    value: object = rate
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return rate
    detail = f"The sample rate is {value!r}."
    remedy = "Give the samples per second, such as 16000."
    raise RequestError(path="sample_rate", detail=detail, remedy=remedy)


@frozen(kw_only=True)
class LiveTranscriptionRequest(TranscriptionSettings):
    """A request for a transcript of audio that is still being recorded.

    Attributes:
        mime_type: MIME type of the audio, such as ``audio/webm``; ``audio/pcm`` for samples with 16
            bits, little endian, one channel.
        sample_rate: Samples per second of ``audio/pcm``; ``None`` for other types.
        language: Code of its language, such as ``de``; most models detect it.
        prompt: Words that may occur, or the text before the audio.
        translates: Translate the words into English.
        timestamps: Return the times of segments or words; ``None`` for none.
        temperature: Randomness of the model.
        options: Further fields of the vendor's session, sent unchanged.
        interim: Return texts that may still change, too; see :class:`InterimText`.
        strict: Raise an error if the translation loses anything, or the vendor takes only complete
            audio.

    Raises:
        RequestError: A field is invalid.
    """

    mime_type: str
    sample_rate: int | None = attrs.field(default=None, converter=_ensure_sample_rate)
    interim: bool = False

    def complete(self, data: bytes) -> TranscriptionRequest:
        """Return the request for the complete audio; samples become a WAV file."""
        if self.sample_rate is not None:
            data = wrap_pcm(data, self.sample_rate)
        names = [field.name for field in attrs.fields(TranscriptionSettings)]
        return TranscriptionRequest(
            audio=AudioContent(data=data), **{name: getattr(self, name) for name in names}
        )


@frozen
class InterimText:
    """Text of live audio that may still change.

    It replaces the previous one, and the next final text replaces it: show it after all final texts
    so far.

    Attributes:
        text: All the text that is not final, with the space before it. Empty to remove the previous
            one.
    """

    text: str


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
