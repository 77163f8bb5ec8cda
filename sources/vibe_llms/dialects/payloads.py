"""Bytes within JSON: data URLs and Base64, in all common variants.

Other values (a placeholder, an invalid encoding) are kept unchanged as a URL, so that the vendor
can judge them.
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
"""OpenAI's name of each type of audio."""

_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*?;base64,(.*)", re.DOTALL)
"""Its groups are the type, without parameters, and the Base64."""
_FROM_URL_SAFE: Final = str.maketrans("-_", "+/")


def decode_base64(text: str) -> bytes | None:
    """Decode Base64; ``None`` if it is invalid.

    Accepts both alphabets, line breaks and missing padding.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        pass
    plain = "".join(text.split()).translate(_FROM_URL_SAFE)
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def decode_exactly(text: str) -> bytes | None:
    """Decode canonical Base64; ``None`` if encoding the bytes again would give another text."""
    data = decode_base64(text)
    return data if data is not None and base64.b64encode(data).decode("ascii") == text else None


def read_url(url: str, default: str) -> dict[str, Any]:
    """Return the fields of a medium at a URL: its type, and data or URL.

    Args:
        default: The type for a URL that does not state one.
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
    """Return the fields of a medium in bare Base64."""
    data = decode_base64(payload)
    if data is None:
        return {"mime_type": mime_type, "url": f"data:{mime_type};base64,{payload}"}
    return {"mime_type": mime_type, "data": data}


def encode_bytes(data: bytes) -> str:
    """Return bytes as Base64."""
    return base64.b64encode(data).decode("ascii")


def encode_payload(content: MediaContent, path: str) -> str:
    """Return the Base64 of a medium. Raises RequestError if its bytes are missing."""
    if content.data is not None:
        return encode_bytes(content.data)
    found = _DATA_URL.fullmatch(content.url or "")
    if found is not None:
        return found[2]
    raise produce_missing_bytes(content, path)


def read_bytes(content: MediaContent, path: str) -> bytes:
    """Return the bytes of a medium, for a vendor that takes no URLs.

    Raises:
        RequestError: They are in a store, or at a URL.
    """
    if content.data is not None:
        return content.data
    found = _DATA_URL.fullmatch(content.url or "")
    data = None if found is None else decode_base64(found[2])
    if data is not None:
        return data
    if content.content_id is not None:
        raise produce_missing_bytes(content, path)
    raise RequestError(
        path=path,
        detail=f"The vendor takes the bytes of the {content.type}, not a URL or the id of a file.",
        remedy="Download it, and send its bytes.",
    )


def produce_missing_bytes(content: MediaContent, path: str) -> RequestError:
    """Make the error of a medium whose bytes are still in a store."""
    return RequestError(
        path=path,
        detail=f"The data of the {content.type} {content.content_id} are not in the request.",
        remedy="Read them from the content store first.",
    )


def compose_url(content: MediaContent, path: str) -> str:
    """Return the URL of a medium, or its bytes as a data URL. Raises RequestError."""
    return compose_data_url(content, path) if content.url is None else content.url


def compose_data_url(content: MediaContent, path: str) -> str:
    """Return the bytes of a medium as a data URL. Raises RequestError if they are missing."""
    return f"data:{content.mime_type};base64,{encode_payload(content, path)}"


def has_payload(content: MediaContent) -> bool:
    """Return whether the bytes are in the request, or must be there as there is no other source."""
    if content.url is not None:
        return content.url.startswith("data:")
    return content.data is not None or content.file_id is None
