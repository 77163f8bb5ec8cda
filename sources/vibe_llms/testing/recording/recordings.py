"""What one exchange looks like in a file: a line of JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Recording:
    """One exchange that was recorded.

    Attributes:
        id: Names it, in errors.
        method: Of HTTP.
        host: Whom it was sent to; it plays no part in matching.
        path: Of the URL.
        query: Of the URL, without secrets.
        request: The body as plain data, or as text where it was no JSON.
        status: Of the answer.
        content_type: Of the answer; empty where it had none.
        headers: Those few headers of the answer that clients act upon.
        chunks: The body of the answer, in the pieces in which it came.
        is_complete: Whether it was read to its end.
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


def read_body(data: bytes) -> Any:
    """A request's body as plain data, or as text where it is no JSON."""
    if not data:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")


def write_recording(recording: Recording) -> str:
    """Writes a recording as one line of JSON, in the shape of shared collections of them.

    The body is text; ``chunks`` holds the sizes in bytes of the pieces in which it came. A body
    that is no UTF-8 is in ``body_base64`` instead.
    """
    row: dict[str, Any] = {
        "id": recording.id,
        "host": recording.host,
        "path": recording.path,
        "query": recording.query,
        "method": recording.method,
        "model": recording.request.get("model") if isinstance(recording.request, dict) else None,
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
    """Reads one line; fields that it does not have, or that are not known, do no harm.

    Raises:
        ValueError: It is no JSON, or says neither where the request went nor what came back.
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
        raise ValueError(f"This line is no recording: {error!r} is missing or wrong.") from error


def _cut(body: bytes, sizes: list[int]) -> tuple[bytes, ...]:
    chunks, at = [], 0
    for size in sizes:
        chunks.append(body[at : at + size])
        at += size
    return tuple(chunk for chunk in [*chunks, body[at:]] if chunk)


def read_recordings(path: Path) -> list[Recording]:
    """Reads a file of recordings.

    Raises:
        ValueError: A line is no recording; the message says which.
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
