"""Pictures, as this dialect has them: bytes in base 64 without a word about what they are."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.dialects.payloads import decode_base64
from vibe_llms.messages.contents import AudioContent, ImageContent, MediaContent
from vibe_llms.messages.signatures import recognize


def read_media(images: object) -> list[MediaContent] | None:
    """Reads the ``images`` of a message; ``None`` where one of them is no plain base 64."""
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
