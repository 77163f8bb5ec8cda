"""Speech of ElevenLabs while its text is written: the WebSocket ``stream-input``.

Source: the package elevenlabs 2.78.0 (realtime_tts.py, types initialize_connection.py,
send_text.py, close_connection.py, audio_output.py and final_output.py), 2026-11-29.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from vibe_llms.dialects.calls import LiveFormat, Message, encode_event
from vibe_llms.dialects.embeddings.results import decode
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.speeches.elevenlabs import DEFAULT_VOICE, FORMATS, PROTOCOL
from vibe_llms.dialects.speeches.live import SpeechBuilder
from vibe_llms.dialects.speeches.openai import choose_format, tell_format
from vibe_llms.exceptions import ProviderError, ProviderFault, Stage
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.speeches import LiveSpeechRequest, Speech
from vibe_llms.models.descriptors import ModelDescriptor

_SPACE: Final = '{"text":" "}'
"""Text without words, which begins a call and keeps it open."""
_MARKS: Final = (
    "\u2026\u3001\u3002\u300b\u300d\u300f\u3011\uff01\uff09\uff0c\uff1a\uff1b\uff1f\uff61\uff64"
)
"""Marks that end words in Chinese and Japanese, which have no spaces."""
_LETTERS: Final = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORDS: Final = re.compile(rf"(.*[\s{_MARKS}])([^\s{_MARKS}]*)\Z", re.DOTALL)
_LONG: Final = (
    re.compile(rf"(.*[{_LETTERS}])([^{_LETTERS}]*)\Z"),
    re.compile(r"(.+)(\w\W*)\Z"),  # Thai vowels may still follow the last letter
)
"""Divisions of a long text without spaces and marks: the first that matches applies."""
_MAX_CHARACTERS: Final = 100


class _Event(msgspec.Struct):
    audio: bytes | None = None  # base64
    isFinal: bool | None = None  # noqa: N815  # the vendor's name
    error: str | None = None
    message: str | None = None


def produce_live_format() -> LiveFormat[LiveSpeechRequest, Speech]:
    """Return the format of live calls."""
    return LiveFormat(write=write, produce_codec=ElevenLabsSpeechCodec)


def write(request: LiveSpeechRequest, model: ModelDescriptor) -> Translation[str]:
    """Write the path of a call."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    tell_format(request, FORMATS, ledger)
    if request.instructions is not None:
        ledger.drop("instructions", "ElevenLabs has no field for them")
    query: dict[str, Any] = {
        "model_id": model.name,
        "output_format": FORMATS[choose_format(request.file_format, FORMATS)],
    }
    if request.language is not None:
        query["language_code"] = request.language
    voice = quote(request.voice or DEFAULT_VOICE, safe="")
    path = f"/v1/text-to-speech/{voice}/stream-input?{urlencode({**query, **request.options})}"
    return Translation(path, ledger.losses)


class ElevenLabsSpeechCodec:
    """Codec of one call; see :class:`.LiveCodec`.

    Each message has whole words, and ends with a space, as the vendor asks for it. In languages
    without spaces, words end at punctuation marks.
    """

    keep_alive = _SPACE

    def __init__(self, request: LiveSpeechRequest, model: ModelDescriptor) -> None:
        self._request, self._model = request, model
        file_format = choose_format(request.file_format, FORMATS)
        self._builder = SpeechBuilder(request, model, PROTOCOL, file_format)
        self._word = ""
        self.is_complete = False

    def begin(self) -> list[Message]:
        """Return the settings."""
        if self._request.speed is None:
            return [_SPACE]
        return [encode_event({"text": " ", "voice_settings": {"speed": self._request.speed}})]

    def write(self, piece: bytes | str) -> list[Message]:
        """Return the message for the words that are complete."""
        assert isinstance(piece, str)
        self._builder.texts.append(piece)
        words, self._word = _split(self._word + piece)
        return [encode_event({"text": words})] if words.strip() else []

    def end(self) -> list[Message]:
        """Return the messages for the last word and the end of the text."""
        words = [encode_event({"text": f"{self._word} "})] if self._word else []
        return [*words, '{"text":""}']

    def feed(self, message: Message) -> list[bytes]:
        """Return the audio in an event. Raises ValueError, or ProviderError for an error."""
        event: _Event = decode(message, _Event)
        if event.error is not None:
            raise ProviderError(
                provider=self._model.provider,
                fault=ProviderFault.SERVER,
                detail=(event.message or event.error)[:500],
                stage=Stage.PROVIDER,
            )
        self.is_complete = self.is_complete or event.isFinal is True
        return self._builder.add(event.audio or b"")

    def finish(self) -> Speech:
        """Return the whole audio. Raises ValueError if it is incomplete."""
        if not self.is_complete:
            raise ValueError("the stream ended before the speech was complete")
        return self._builder.build()


def _split(text: str) -> tuple[str, str]:
    """Return the words that are complete, and the beginning of the next one."""
    found = _WORDS.match(text)
    words, rest = ("", text) if found is None else found.groups()
    if len(rest) > _MAX_CHARACTERS:
        parts = next((match for form in _LONG if (match := form.match(rest))), None)
        words, rest = (text, "") if parts is None else (words + parts[1], parts[2])
    if words[-1:].isspace():
        words = words[:-1]
    return f"{words} " if words else "", rest
