"""Bytes within JSON: data URLs and base 64, in any spelling that has one meaning.

What has none is kept as it stands, in the place of a URL, for whoever shall judge it: a
placeholder, an encoding that is not base 64.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

from vibe_llms.exceptions import RequestError
from vibe_llms.messages.contents import MediaContent

AUDIO_FORMATS: Final = {
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
}
"""From a type of sound to OpenAI's word for it."""

_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*?;base64,(.*)", re.DOTALL)
"""With parameters of its type, which nobody needs to know here."""
_FOR_ADDRESSES: Final = str.maketrans("-_", "+/")


def decode_base64(text: str) -> bytes | None:
    """Returns the bytes of base 64; None where it is none.

    Both alphabets are read, as are broken lines, and what lacks its padding.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        pass
    plain = "".join(text.split()).translate(_FOR_ADDRESSES)
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def decode_exactly(text: str) -> bytes | None:
    """Returns the bytes of whole base 64; None where encoding them would give another text."""
    data = decode_base64(text)
    return data if data is not None and base64.b64encode(data).decode("ascii") == text else None


def read_url(url: str, default: str) -> dict[str, Any]:
    """Returns the fields of a medium which a URL stands for: its type, and data or URL.

    Args:
        default: The type of what is elsewhere.
    """
    found = _DATA_URL.fullmatch(url)
    if found is None:
        return {"mime_type": default, "url": url}
    mime_type, payload = found.groups()
    data = decode_base64(payload)
    if data is None or not mime_type:
        return {"mime_type": mime_type or default, "url": url}
    return {"mime_type": mime_type, "data": data}


def read_payload(payload: str, mime_type: str) -> dict[str, Any]:
    """Returns the fields of a medium which bare base 64 stands for."""
    data = decode_base64(payload)
    if data is None:
        return {"mime_type": mime_type, "url": f"data:{mime_type};base64,{payload}"}
    return {"mime_type": mime_type, "data": data}


def encode_payload(content: MediaContent, path: str) -> str:
    """Returns the bytes of a medium in base 64. Raises RequestError where they are not there."""
    if content.data is not None:
        return base64.b64encode(content.data).decode("ascii")
    found = _DATA_URL.fullmatch(content.url or "")
    if found is not None:
        return found[2]
    raise produce_missing_bytes(content, path)


def produce_missing_bytes(content: MediaContent, path: str) -> RequestError:
    """Makes the error of a medium whose bytes are still in a store."""
    return RequestError(
        path=path,
        detail=f"The bytes of the {content.type} {content.content_id} are not in the request.",
        remedy="Read them from the content store first.",
    )


def compose_url(content: MediaContent, path: str) -> str:
    """Returns the URL of a medium, or its bytes as one. Raises RequestError without either."""
    return compose_data_url(content, path) if content.url is None else content.url


def compose_data_url(content: MediaContent, path: str) -> str:
    """Returns the bytes of a medium as a URL. Raises RequestError where they are not there."""
    return f"data:{content.mime_type};base64,{encode_payload(content, path)}"


def has_payload(content: MediaContent) -> bool:
    """Tells whether the bytes are, or must be, in the request: there is no other way to them."""
    if content.url is not None:
        return content.url.startswith("data:")
    return content.data is not None or content.file_id is None
