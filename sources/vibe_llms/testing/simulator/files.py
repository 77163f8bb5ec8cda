"""Files of the vendors: uploads, their ends, and references to them in messages.

A reference to an unknown id is accepted, as recorded conversations have those of other accounts.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.testing.simulator.forms import UploadedFile, read_fields
from vibe_llms.testing.simulator.generate_content import GEMINI
from vibe_llms.testing.simulator.messages import MESSAGES
from vibe_llms.testing.simulator.protocols import SimulatedProtocol, SimulatedRequest
from vibe_llms.testing.simulator.refusals import SimulatedRefusal, require

_GEMINI_SECONDS: Final = 172_800
"""Gemini deletes files after 48 hours."""

_MAX_SECONDS: Final = {"openai": 2_592_000, "anthropic": 7_776_000}
_MIN_SECONDS: Final = 3_600


@define(kw_only=True)
class StoredFile:
    """A file that a vendor stores.

    Attributes:
        id: The vendor's id; at Gemini the last part of its name.
        created: Seconds since 1970.
        ends: The moment of its end, in seconds since 1970; ``None`` if it stays.
        polls: Number of requests until it is processed (Gemini).
    """

    id: str
    created: int
    name: str
    purpose: str = ""
    media_type: str = "application/octet-stream"
    data: bytes = attrs.field(repr=False)
    ends: int | None = None
    polls: int = 0

    def has_ended(self, now: int) -> bool:
        """Return whether the vendor has deleted it."""
        return self.ends is not None and now >= self.ends


@define
class _ResumableUpload:
    """An upload in progress at Gemini."""

    name: str
    media_type: str
    size: int
    polls: int
    data: bytearray = attrs.field(factory=bytearray)


Answer = tuple[Mapping[str, Any] | bytes, dict[str, str]]
"""Body and headers."""


def answer_files(purpose: str, request: SimulatedRequest, protocol: SimulatedProtocol) -> Answer:
    """Answer a request about files. Raises SimulatedRefusal."""
    describe = _find_description(protocol)
    if purpose == "files":
        if protocol is GEMINI:
            return _upload_to_gemini(request)
        upload = _upload_to_anthropic if protocol is MESSAGES else _upload_to_openai
        return describe(upload(request), request), {}
    if purpose == "file_list":
        return _list_files(request, protocol, describe), {}
    file = _find_file(request, protocol)
    if purpose == "file_content":
        return file.data, {}
    if purpose == "file_delete":
        file.ends = request.now
        return _describe_deletion(file, protocol), {}
    file.polls -= 1
    return describe(file, request), {}


def store_file(request: SimulatedRequest, file: StoredFile) -> StoredFile:
    """Store a file, and return it."""
    request.stored[file.id] = file
    return file


def _upload_to_openai(request: SimulatedRequest) -> StoredFile:
    form = read_fields(request.data, request.headers.get("content-type", ""))
    file, purpose = form.get("file"), form.get("purpose")
    if not isinstance(file, UploadedFile) or not purpose:
        raise SimulatedRefusal(400, "invalid", "A file and its purpose are required.")
    anchor, seconds = form.get("expires_after[anchor]"), form.get("expires_after[seconds]")
    require(anchor in (None, "created_at"), "Invalid anchor", param="expires_after.anchor")
    return store_file(
        request,
        StoredFile(
            id=request.mint("file-", 22),
            created=request.now,
            name=file.name,
            purpose=purpose,
            media_type=file.media_type,
            data=file.data,
            ends=_find_end(request, seconds, "openai"),
        ),
    )


def _upload_to_anthropic(request: SimulatedRequest) -> StoredFile:
    form = read_fields(request.data, request.headers.get("content-type", ""))
    file = form.pop("file", None)
    if not isinstance(file, UploadedFile):
        raise SimulatedRefusal(400, "invalid", "file: Field required")
    seconds = form.pop("expires_in_seconds", None)
    require(not form, f"{next(iter(form), '')}: Extra inputs are not permitted")
    return store_file(
        request,
        StoredFile(
            id=request.mint("file_", 24),
            created=request.now,
            name=file.name,
            media_type=file.media_type,
            data=file.data,
            ends=_find_end(request, seconds, "anthropic"),
        ),
    )


def _find_end(request: SimulatedRequest, seconds: str | None, vendor: str) -> int | None:
    if seconds is None:
        return None
    is_valid = seconds.isdecimal() and _MIN_SECONDS <= int(seconds) <= _MAX_SECONDS[vendor]
    require(is_valid, f"The seconds must be between {_MIN_SECONDS} and {_MAX_SECONDS[vendor]}.")
    return request.now + int(seconds)


def _upload_to_gemini(request: SimulatedRequest) -> Answer:
    """Perform one step of an upload, which is resumable, or has metadata and data in one body."""
    headers = request.headers
    if (identity := request.query.get("upload_id")) is not None:
        return _continue_upload(request, request.stored.get(identity))
    if headers.get("x-goog-upload-command") == "start":
        identity = request.mint("upload", 20)
        request.stored[identity] = _ResumableUpload(
            _read_display_name(request.data),
            headers["x-goog-upload-header-content-type"],
            int(headers["x-goog-upload-header-content-length"]),
            request.conditions.count_if_set("file_polls"),
        )
        # The address of the service; behind a prefix that sets conditions, clients add it.
        url = f"http://{headers['host']}{request.path}?upload_id={identity}"
        return {}, {"x-goog-upload-url": url, "x-goog-upload-status": "active"}
    require(request.query.get("uploadType") == "multipart", "Unknown kind of upload.")
    kind = headers.get("content-type", "")
    boundary = re.search("boundary=([^;]+)", kind)
    if not kind.startswith("multipart/related") or boundary is None:
        raise SimulatedRefusal(400, "invalid", "The body is not multipart/related.")
    parts = request.data.split(f"--{boundary[1]}".encode())
    require(len(parts) == 4, "The upload must have two parts.")
    metadata_head, _, metadata_body = parts[1].partition(b"\r\n\r\n")
    head, _, data = parts[2].partition(b"\r\n\r\n")
    require(b"application/json" in metadata_head, "The first part must be JSON.")
    media_type = re.search(rb"(?i)content-type: *(\S+)", head)
    file = _store_at_gemini(
        request,
        _read_display_name(metadata_body),
        media_type[1].decode() if media_type else "",
        data.removesuffix(b"\r\n"),
    )
    return {"file": _describe_gemini(file, request)}, {}


def _read_display_name(metadata: bytes) -> str:
    """Return the name in the metadata of an upload, in either spelling."""
    file = json.loads(metadata or b"{}").get("file") or {}
    return str(file.get("displayName") or file.get("display_name") or "")


def _continue_upload(request: SimulatedRequest, upload: object) -> Answer:
    if not isinstance(upload, _ResumableUpload):
        raise SimulatedRefusal(404, "missing", "There is no such upload.")
    offset = int(request.headers["x-goog-upload-offset"])
    require(offset == len(upload.data), "The offset is not the size of the data so far.")
    upload.data += request.data
    if "finalize" not in request.headers["x-goog-upload-command"]:
        return {}, {"x-goog-upload-status": "active"}
    require(len(upload.data) == upload.size, "The upload has another size.")
    file = _store_at_gemini(request, upload.name, upload.media_type, bytes(upload.data))
    file.polls = upload.polls
    return {"file": _describe_gemini(file, request)}, {"x-goog-upload-status": "final"}


def _store_at_gemini(
    request: SimulatedRequest, name: str, media_type: str, data: bytes
) -> StoredFile:
    require(media_type, "The upload has no MIME type.")
    file = StoredFile(
        id=request.mint("f", 11).lower(),
        created=request.now,
        name=name,
        media_type=media_type,
        data=data,
        ends=request.now + _GEMINI_SECONDS,
        polls=request.conditions.count_if_set("file_polls"),
    )
    return store_file(request, file)


def _find_file(request: SimulatedRequest, protocol: SimulatedProtocol) -> StoredFile:
    file = request.stored.get(request.names.get("file", ""))
    if isinstance(file, StoredFile) and not file.has_ended(request.now):
        return file
    raise _refuse_missing(request.names.get("file", ""), protocol)


def _refuse_missing(identity: str, protocol: SimulatedProtocol) -> SimulatedRefusal:
    if protocol is GEMINI:
        message = f"You do not have permission to access the File {identity} or it may not exist."
        return SimulatedRefusal(403, "permission", message)
    if protocol is MESSAGES:
        return SimulatedRefusal(404, "missing", f"File not found: {identity}")
    return SimulatedRefusal(404, "missing", f"No such File object: {identity}")


def _list_files(
    request: SimulatedRequest,
    protocol: SimulatedProtocol,
    describe: Callable[[StoredFile, SimulatedRequest], dict[str, Any]],
) -> dict[str, Any]:
    files = [
        describe(each, request)
        for each in request.stored.values()
        if isinstance(each, StoredFile) and not each.has_ended(request.now)
    ]
    if protocol is GEMINI:
        return {"files": files}
    if protocol is MESSAGES:
        return {"data": files, "next_page": None}
    return {"object": "list", "data": files, "has_more": False}


def _find_description(
    protocol: SimulatedProtocol,
) -> Callable[[StoredFile, SimulatedRequest], dict[str, Any]]:
    if protocol is GEMINI:
        return _describe_gemini
    return _describe_anthropic if protocol is MESSAGES else _describe_openai


def _describe_openai(file: StoredFile, request: SimulatedRequest) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": len(file.data),
        "created_at": file.created,
        "expires_at": file.ends,
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
    }


def _describe_anthropic(file: StoredFile, request: SimulatedRequest) -> dict[str, Any]:
    return {
        "id": file.id,
        "type": "file",
        "filename": file.name,
        "mime_type": file.media_type,
        "size_bytes": len(file.data),
        "created_at": _write_moment(file.created),
        "expires_at": _write_moment(file.ends),
        "downloadable": False,
    }


def _describe_gemini(file: StoredFile, request: SimulatedRequest) -> dict[str, Any]:
    # Google's own address, at which only the account can read it.
    uri = f"https://generativelanguage.googleapis.com/v1beta/files/{file.id}"
    return {
        "name": f"files/{file.id}",
        "displayName": file.name,
        "mimeType": file.media_type,
        "sizeBytes": str(len(file.data)),
        "createTime": _write_moment(file.created),
        "expirationTime": _write_moment(file.ends),
        "uri": uri,
        "state": "PROCESSING" if file.polls > 0 else "ACTIVE",
    }


def _describe_deletion(file: StoredFile, protocol: SimulatedProtocol) -> dict[str, Any]:
    if protocol is GEMINI:
        return {}
    if protocol is MESSAGES:
        return {"id": file.id, "type": "file_deleted"}
    return {"id": file.id, "object": "file", "deleted": True}


def _write_moment(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def resolve_files(
    request: SimulatedRequest, protocol: SimulatedProtocol, counts: MutableMapping[str, int]
) -> SimulatedRequest:
    """Return a request with the data of its files, as if they had been sent with it.

    Args:
        counts: How many requests a fault has refused, by its name.

    Raises:
        SimulatedRefusal: A file has ended.
    """
    resolver = _Resolver(request, protocol)
    body = resolver.resolve(request.body)
    ended = request.conditions.count_if_set("files_end")
    if resolver.found and counts.get("files_end", 0) < ended:
        counts["files_end"] = counts.get("files_end", 0) + 1
        for file in resolver.found:
            file.ends = request.now
    for file in resolver.found:
        if file.has_ended(request.now):
            raise _refuse_missing(file.id, protocol)
        require(file.polls <= 0, f"The File {file.id} is not in an ACTIVE state.")
    return attrs.evolve(request, body=body) if resolver.found else request


class _Resolver:
    """Replaces the references to files in a body by their data."""

    def __init__(self, request: SimulatedRequest, protocol: SimulatedProtocol) -> None:
        self._stored = request.stored
        self._protocol = protocol
        self.found: list[StoredFile] = []

    def resolve(self, value: Any) -> Any:
        """Return a value of a body with data instead of references."""
        if isinstance(value, list):
            return [self.resolve(each) for each in value]
        if not isinstance(value, Mapping):
            return value
        return self._replace(value) or {name: self.resolve(each) for name, each in value.items()}

    def _replace(self, part: Mapping[str, Any]) -> dict[str, Any] | None:
        file = self._find(_find_reference(part, self._protocol))
        if file is None:
            return None
        data = base64.b64encode(file.data).decode()
        url = f"data:{file.media_type};base64,{data}"
        if "fileData" in part:
            inline = {"mimeType": file.media_type, "data": data}
            others = {name: value for name, value in part.items() if name != "fileData"}
            return {**others, "inlineData": inline}
        others = {name: value for name, value in part.items() if name != "file_id"}
        match part["type"]:
            case "input_file":
                return {**others, "filename": file.name, "file_data": url}
            case "input_image":
                return {**others, "image_url": url}
            case _ if self._protocol is MESSAGES:
                return {"type": "base64", "media_type": file.media_type, "data": data}
        return {"type": "file", "file": {"filename": file.name, "file_data": url}}

    def _find(self, identity: str) -> StoredFile | None:
        file = self._stored.get(identity)
        if not isinstance(file, StoredFile):
            return None
        self.found.append(file)
        return file


def _find_reference(part: Mapping[str, Any], protocol: SimulatedProtocol) -> str:
    """Return the id of the file that a part of a body refers to; empty without one."""
    match part:
        case {"type": "file", "file": {"file_id": str(identity)}}:
            return identity
        case {"type": "input_file" | "input_image", "file_id": str(identity)}:
            return identity
        case {"type": "file", "file_id": str(identity)}:  # Anthropic, Mistral
            return identity
        case {"fileData": {"fileUri": str(uri)} | {"file_uri": str(uri)}}:
            return uri.rpartition("/")[2]
    return ""
