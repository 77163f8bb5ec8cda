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
_VIDEO_TYPE: Final = "video/*"
_UNKNOWN_TYPE: Final = "application/octet-stream"


def read_media(part: Mapping[str, Any]) -> MediaContent | None:
    """Return the content of a part with ``inlineData`` or ``fileData``; ``None`` if invalid."""
    name = "inlineData" if "inlineData" in part else "fileData"
    if not isinstance(part[name], Mapping):
        return None
    source = camelize(part[name])
    other_fields = without(source, "data", "fileUri", "mimeType", "displayName")
    mime_type = source.get("mimeType") or ""
    uri = source.get("fileUri")
    fields: dict[str, Any] = {"name": source.get("displayName")}
    if name == "inlineData":
        text = source.get("data")
        fields["data"] = decode_base64(text) if isinstance(text, str) else None
        if fields["data"] is None:
            return None
    elif not isinstance(uri, str) or "/" not in uri:  # neither an address nor a file of Google
        return None
    elif _is_public(uri):
        fields["url"] = uri
    else:
        fields["file_id"] = uri
    if not isinstance(mime_type, str):
        return None
    if not mime_type:
        mime_type = _guess_default_type(uri)
    extras = without(part, name) | ({name: other_fields} if other_fields else {})
    # Uploaded files keep even empty native data: these show which vendor has the file.
    keep = make_native if "file_id" in fields else keep_native
    native = keep(PROTOCOL, extras)
    return choose_media(mime_type)(mime_type=mime_type, native=native, **fields)


def _is_public(uri: str) -> bool:
    """Return whether other vendors could download a file from its address, too."""
    return uri.startswith(("http://", "https://")) and _FILES_HOST not in uri


def _is_file_of_google(file_id: str) -> bool:
    """Return whether a file is stored by Google: ``gs://bucket/name`` or an address.

    Names of files at other vendors contain no slash.
    """
    return "/" in file_id


def _guess_default_type(uri: str | None) -> str:
    """Return the type of a medium without one, which the address of a video tells."""
    is_video = uri is not None and any(host in uri for host in _VIDEO_HOSTS)
    return _VIDEO_TYPE if is_video else _UNKNOWN_TYPE


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
    is_stored_here = content.file_id is not None and _is_file_of_google(content.file_id)
    address = content.file_id if is_stored_here else content.url
    if address is None:
        if content.file_id is None:
            raise RequestError(
                path=path,
                detail=f"The {content.type} content at {path} has no data.",
                remedy="Pass its data, or load them from the store by the content_id.",
            )
        ledger.withhold(path, f"the file {content.file_id} is stored by another vendor")
        return None
    source = {"fileUri": address}
    kind = content.mime_type
    if kind.endswith("/*") or kind == _UNKNOWN_TYPE:
        kind = mimetypes.guess_type(address.partition("?")[0])[0] or ""
    if kind:
        source["mimeType"] = kind
    elif content.mime_type != _guess_default_type(address):
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
