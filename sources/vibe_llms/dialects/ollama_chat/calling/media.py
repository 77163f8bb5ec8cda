"""Images and audio of this dialect: Base64 without a media type, in one field."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.dialects.payloads import decode_base64
from vibe_llms.messages.contents import AudioContent, ImageContent, MediaContent
from vibe_llms.messages.signatures import recognize


def read_media(images: object) -> list[MediaContent] | None:
    """Decode the ``images`` of a message; ``None`` if an entry is not plain Base64."""
    if not isinstance(images, Sequence) or isinstance(images, str):
        return None
    contents: list[MediaContent] = []
    for text in images:
        data = decode_base64(text) if isinstance(text, str) else None
        if not data:
            return None
        mime_type = recognize(data, "image/", "audio/") or "application/octet-stream"
        kind = AudioContent if mime_type.startswith("audio/") else ImageContent
        contents.append(kind(mime_type=mime_type, data=data))
    return contents
