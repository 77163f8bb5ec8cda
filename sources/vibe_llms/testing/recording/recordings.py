"""Recordings and their file format, one line of JSON for each exchange."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.forms import FormFile, decode_form, is_form


@frozen(kw_only=True)
class Recording:
    """A recorded exchange.

    Attributes:
        id: Name of the recording in errors.
        method: The HTTP method.
        host: The host of the URL; matching ignores it.
        path: The path of the URL.
        query: The query of the URL, without secrets.
        request: The body of the request as plain data; see :func:`read_body`.
        status: The status of the answer.
        content_type: The content type of the answer; empty without one.
        headers: The few headers of the answer that clients use.
        chunks: The body of the answer, in its original pieces.
        is_complete: True if the answer was read to its end.
    """

    id: str
    method: str
    host: str = ""
    path: str
    query: str = ""
    request: Any = attrs.field(default=None, repr=False, hash=False)
    status: int
    content_type: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    chunks: tuple[bytes, ...] = attrs.field(repr=False)
    is_complete: bool = True

    @property
    def body(self) -> bytes:
        """The whole body of the answer."""
        return b"".join(self.chunks)


def read_body(data: bytes, content_type: str = "") -> Any:
    """Return a request's body as plain data.

    A form is the list of its fields, so that its random boundary does not matter. Files, and bodies
    that are neither JSON nor text, are represented by their hash and size.
    """
    if not data:
        return None
    if is_form(content_type):
        with suppress(ValueError):
            return {"form": [_read_field(*field) for field in decode_form(data, content_type)]}
    try:
        return json.loads(data)
    except ValueError:
        pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _summarize(data)


def _read_field(name: str, value: str | FormFile) -> list[Any]:
    if isinstance(value, str):
        return [name, value]
    return [name, {"file": value.name, "type": value.media_type, **_summarize(value.data)}]


def _summarize(data: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def _find_model(request: Any) -> Any:
    """Return the model that a request names; ``None`` if it names none."""
    if not isinstance(request, dict):
        return None
    form = request.get("form")
    if not isinstance(form, list):
        return request.get("model")
    return next((value for name, value in form if name == "model"), None)


def write_recording(recording: Recording) -> str:
    """Encode a recording as one line of JSON.

    The body is text; ``chunks`` holds the sizes in bytes of its original pieces. A body that is not
    UTF-8 is in ``body_base64`` instead.
    """
    row: dict[str, Any] = {
        "id": recording.id,
        "host": recording.host,
        "path": recording.path,
        "query": recording.query,
        "method": recording.method,
        "model": _find_model(recording.request),
        "status": recording.status,
        "stream": "stream" in recording.content_type or "ndjson" in recording.content_type,
        "request": recording.request,
        "content_type": recording.content_type,
        "headers": dict(recording.headers),
        "chunks": [len(chunk) for chunk in recording.chunks],
        "complete": recording.is_complete,
    }
    try:
        row["body"] = recording.body.decode("utf-8")
    except UnicodeDecodeError:
        row["body_base64"] = base64.b64encode(recording.body).decode("ascii")
    return json.dumps(row, ensure_ascii=False)


def read_recording(line: str | bytes) -> Recording:
    """Decode one line; missing and unknown fields are ignored.

    Raises:
        ValueError: The line is not JSON, or has no path or no status.
    """
    row = json.loads(line)
    try:
        if row.get("body_base64") is not None:
            body = base64.b64decode(row["body_base64"])
        else:
            body = (row.get("body") or "").encode("utf-8", "surrogatepass")
        return Recording(
            id=str(row.get("id", "")),
            method=row.get("method") or "POST",
            host=row.get("host") or "",
            path=row["path"],
            query=row.get("query") or "",
            request=row.get("request"),
            status=int(row["status"]),
            content_type=row.get("content_type") or "",
            headers=row.get("headers") or {},
            chunks=_cut(body, row.get("chunks") or [len(body)]),
            is_complete=row.get("complete", True),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"This line is not a recording: {error!r} is missing or wrong.") from error


def _cut(body: bytes, sizes: list[int]) -> tuple[bytes, ...]:
    """Cut a body into chunks of these sizes, and the rest."""
    chunks, position = [], 0
    for size in sizes:
        chunks.append(body[position : position + size])
        position += size
    return tuple(chunk for chunk in [*chunks, body[position:]] if chunk)


def read_recordings(path: Path) -> list[Recording]:
    """Read a file of recordings.

    Raises:
        ValueError: A line is not a recording; the message has its number.
        OSError: The file cannot be read.
    """
    recordings = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                recordings.append(read_recording(line))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error
    return recordings
