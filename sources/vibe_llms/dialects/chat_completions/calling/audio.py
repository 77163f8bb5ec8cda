"""Audio output of a model: pieces of audio and their format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.extras import make_native
from vibe_llms.dialects.payloads import decode_exactly, read_payload
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.signatures import recognize


@define
class MessageAudio:
    """The single audio of a message.

    Attributes:
        index: Index of the content.
    """

    index: int
    _chunks: list[str] = attrs.field(factory=list, init=False)
    _transcripts: list[str] = attrs.field(factory=list, init=False)
    _rest: dict[str, Any] = attrs.field(factory=dict, init=False)

    def read(self, audio: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the pieces in a delta, each with its channel."""
        for name, value in audio.items():
            if name == "data" and value:
                self._chunks.append(value)
                yield value, "data"
            elif name == "transcript" and value:
                self._transcripts.append(value)
                yield value, "transcript"
            elif value is not None and name not in ("data", "transcript"):
                self._rest[name] = value

    def finish(self) -> AudioContent:
        """Return the audio with its native data."""
        pieces = [decode_exactly(chunk) for chunk in self._chunks]
        known = [piece for piece in pieces if piece is not None]
        data = b"".join(known)
        kind = recognize(data, "audio/") or "audio/pcm"  # raw samples have no signature
        fields: dict[str, Any] = {"mime_type": kind, "data": data}
        if len(known) < len(pieces):  # invalid or unusual Base64: kept unchanged
            fields = read_payload("".join(self._chunks), "audio/*")
        identity = self._rest.pop("id", None)
        return AudioContent(
            **fields,
            file_id=identity,
            transcript="".join(self._transcripts) or None,
            native=make_native(PROTOCOL, self._rest),
        )
