"""The audio of a response: at most one, separate from the items."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import attrs

from vibe_llms.events.stream import Channel, ContentDeltaEvent
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.contents import AudioContent


@define
class ResponseAudio:
    """Collects the audio of a response, and its transcript."""

    index: int
    data: list[str] = attrs.field(factory=list)
    transcript: list[str] = attrs.field(factory=list)

    def add(self, kind: str, event: Mapping[str, Any]) -> list[ContentDeltaEvent]:
        """Return the deltas of the audio in an event, if any."""
        text = event.get("delta")
        if not isinstance(text, str) or not text:
            return []
        is_transcript = "transcript" in kind
        pieces = self.transcript if is_transcript else self.data
        pieces.append(text)
        channel: Channel = "transcript" if is_transcript else "data"
        return [ContentDeltaEvent(self.index, text, channel)]

    def produce_content(self) -> AudioContent:
        """Return the whole audio. Raises ValueError if the data are not Base64."""
        try:
            # Piece by piece, as each may end with padding.
            data = b"".join(base64.b64decode(piece) for piece in self.data)
        except binascii.Error as error:
            raise ValueError("the audio is not valid Base64") from error
        # The protocol does not name the format of the audio.
        transcript = "".join(self.transcript) or None
        return AudioContent(mime_type="audio/*", data=data, transcript=transcript)
