"""Shared parts of transcripts of audio that is still being recorded."""

from __future__ import annotations

from vibe_llms.dialects.calls import produce_origin
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.transcripts import (
    InterimText,
    LiveTranscriptionRequest,
    Transcript,
    TranscriptPart,
)
from vibe_llms.messages.views import add_usages
from vibe_llms.models.descriptors import ModelDescriptor


class TranscriptBuilder:
    """Joins the final texts of a live transcript.

    Attributes:
        segments: Texts with their times.
        words: Words with their times.
        language: Detected language.
        seconds: Length of the audio.
        response_id: The vendor's id of the call.
    """

    def __init__(
        self, request: LiveTranscriptionRequest, model: ModelDescriptor, protocol: str
    ) -> None:
        self._request, self._model, self._protocol = request, model, protocol
        self._texts: list[str] = []
        self._usages: list[Usage] = []
        self._interim = ""
        self.segments: list[TranscriptPart] = []
        self.words: list[TranscriptPart] = []
        self.language = request.language
        self.seconds: float | None = None
        self.response_id: str | None = None

    def add(self, text: str) -> list[str]:
        """Add a text unchanged, and return it as a piece."""
        if not text:
            return []
        self._texts.append(text)
        self._interim = ""
        return [text]

    def add_separate(self, text: str) -> list[str]:
        """Add a text after a space, and return it as a piece."""
        return self.add(self._separate(text))

    def show(self, text: str) -> list[InterimText]:
        """Return a text that may still change, after a space, unless it is shown already."""
        text = self._separate(text)
        if text == self._interim:
            return []
        self._interim = text
        return [InterimText(text)]

    def _separate(self, text: str) -> str:
        return f" {text}" if text and self._texts else text

    def add_usage(self, usage: Usage | None) -> None:
        """Add the usage of a part."""
        if usage is not None:
            self._usages.append(usage)

    def build(self) -> Transcript:
        """Return the transcript, with the requested times."""
        wanted = self._request.timestamps
        origin = produce_origin(
            self._model,
            self._protocol,
            add_usages(self._usages),
            response_id=self.response_id,
        )
        return Transcript(
            text="".join(self._texts),
            segments=self.segments if wanted == "segment" else (),
            words=self.words if wanted == "word" else (),
            language=self.language,
            seconds=self.seconds,
            origin=origin,
        )
