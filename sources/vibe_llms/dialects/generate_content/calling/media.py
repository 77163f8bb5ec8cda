"""Media as parts: inline data, or the address of a file."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import keep_native, make_native, merge, without
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.payloads import decode_base64, encode_payload
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.contents import (
    MediaContent,
    choose_media,
)

_VIDEO_HOSTS: Final = ("youtube.com/", "youtu.be/")
# Uploads to Google have an address, too, but only for their owner.
_FILES_HOST: Final = "generativelanguage.googleapis.com/"
_UNKNOWN_TYPE: Final = "application/octet-stream"


def read_media(part: Mapping[str, Any]) -> MediaContent | None:
    """Return the content of a part with ``inlineData`` or ``fileData``; ``None`` if invalid."""
    name = "inlineData" if "inlineData" in part else "fileData"
    if not isinstance(part[name], Mapping):
        return None
    source = camelize(part[name])
    rest = without(source, "data", "fileUri", "mimeType", "displayName")
    mime_type = source.get("mimeType")
    fields: dict[str, Any] = {"name": source.get("displayName")}
    if name == "inlineData":
        text = source.get("data")
        fields["data"] = decode_base64(text) if isinstance(text, str) else None
        if fields["data"] is None:
            return None
    elif uri := source.get("fileUri"):
        fields["file_id" if "/" in uri and not _is_public(uri) else "url"] = uri
    else:
        return None
    if not mime_type:
        mime_type = "video/*" if _is_video(source.get("fileUri") or "") else _UNKNOWN_TYPE
    extras = without(part, name) | ({name: rest} if rest else {})
    # Uploaded files keep even empty native data: these show which vendor has the file.
    keep = make_native if "file_id" in fields else keep_native
    native = keep(PROTOCOL, extras)
    return choose_media(mime_type)(mime_type=mime_type, native=native, **fields)


def _is_public(uri: str) -> bool:
    """Return whether other vendors could download it from there, too."""
    return uri.startswith(("http://", "https://")) and _FILES_HOST not in uri


def _is_video(uri: str) -> bool:
    return any(host in uri for host in _VIDEO_HOSTS)


def write_media(
    content: MediaContent, extras: Mapping[str, Any], path: str, ledger: Ledger, quirks: Quirks
) -> dict[str, Any] | None:
    """Return the part of a medium; ``None``, with a loss, if the vendor cannot access it.

    Raises:
        RequestError: The bytes of the medium are missing.
    """
    _report_unsupported_fields(content, path, ledger)
    if content.data is not None:
        source = {"mimeType": content.mime_type, "data": encode_payload(content, path)}
        if content.name and quirks.takes_display_names:
            source["displayName"] = content.name
        elif content.name:
            ledger.drop(f"{path}.name", "inline data have no name in this protocol")
        return merge({"inlineData": source}, extras)
    address = content.file_id if content.file_id and "/" in content.file_id else content.url
    if address is None:
        if content.file_id is None:
            raise RequestError(
                path=path,
                detail=f"The {content.type} content at {path} has no data.",
                remedy="Pass its data, or load them from the store by the content_id.",
            )
        ledger.withhold(path, f"the file {content.file_id} is stored by another vendor")
        return None
    source, kind = {"fileUri": address}, content.mime_type
    if kind.endswith("/*") or kind == _UNKNOWN_TYPE:
        kind = mimetypes.guess_type(address.partition("?")[0])[0] or ""
    if kind:
        source["mimeType"] = kind
    elif content.mime_type != ("video/*" if _is_video(address) else _UNKNOWN_TYPE):
        reason = f"it is sent as a file: the type of the {content.type} is unknown"
        ledger.coerce(f"{path}.mime_type", reason)
    if content.name:
        source["displayName"] = content.name
    return merge({"fileData": source}, extras)


def _report_unsupported_fields(content: MediaContent, path: str, ledger: Ledger) -> None:
    """Record the fields of a medium that its part does not have."""
    for name in ("detail", "transcript", "title", "context"):
        if getattr(content, name, None):
            ledger.drop(f"{path}.{name}", f"{content.type} content has no such field")
