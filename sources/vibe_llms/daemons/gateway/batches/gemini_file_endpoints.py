"""Files of Gemini's clients: uploads in one or several pieces, and the paths below ``files``.

An upload in pieces begins with its metadata; the answer has an address for the pieces. The address
is secret and belongs to its client, so that the pieces need no key.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.daemons.asgi import HttpCall, refuse_body
from vibe_llms.daemons.bodies import decode_body
from vibe_llms.daemons.gateway.batches.file_endpoints import write_moment
from vibe_llms.daemons.gateway.batches.files import ClientFile
from vibe_llms.daemons.gateway.batches.running import GatewayBatchRunner
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.responses.response_bodies import Fields
from vibe_llms.daemons.records import CallRecord
from vibe_llms.foundation.forms import FormFile

PURPOSE: Final = "user_data"
"""Purpose of files in this protocol, which has none."""

_LIFE_SECONDS: Final = 172_800
"""Gemini's clients expect that a file ends after 48 hours."""

_BOUNDARY: Final = re.compile(r'boundary="?([^";]{1,70})"?')
_STATUS: Final = "x-goog-upload-status"


class GeminiFileEndpoints:
    """Upload, list, read and delete files.

    Args:
        gateway: Authenticates clients.
        runner: Runs the batches, and has the files.
        version: Version in the paths, such as ``v1beta``.
    """

    def __init__(self, gateway: Gateway, runner: GatewayBatchRunner, version: str) -> None:
        self._gateway = gateway
        self._runner = runner
        self._files = runner.files
        self._version = version
        self._uploads = runner.uploads

    async def create(self, call: HttpCall, record: CallRecord) -> None:
        """Begin or continue an upload, or store a whole one. Raises ConverseError."""
        if (identity := call.query.get("upload_id")) is not None:
            await self._continue(call, record, identity)
            return
        await self._gateway.authorize(call, record)
        body = await call.read_body()
        content_type = call.headers.get("content-type", "")
        if content_type.startswith("multipart/"):
            await self._store(call, record.subject, _read_related(body, content_type), {})
        else:
            await self._begin(call, record, _read_metadata(decode_body(body) if body else {}))

    async def _begin(self, call: HttpCall, record: CallRecord, name: str) -> None:
        size = call.headers.get("x-goog-upload-header-content-length", "")
        upload = await self._uploads.begin(
            name=name or call.headers.get("x-goog-upload-file-name", ""),
            media_type=call.headers.get("x-goog-upload-header-content-type", ""),
            subject=record.subject,
            size=int(size) if size.isascii() and size.isdigit() and len(size) < 16 else None,
        )
        url = f"{_find_origin(call)}/upload/{self._version}/files?upload_id={upload.id}"
        await call.answer(200, b"{}", {"x-goog-upload-url": url, _STATUS: "active"})

    async def _continue(self, call: HttpCall, record: CallRecord, identity: str) -> None:
        upload, size = await self._uploads.find(identity)
        record.subject = upload.subject
        if call.headers.get("x-goog-upload-offset", "") != str(size):
            raise refuse_body(f"The offset must be {size}.", "x-goog-upload-offset")
        piece = await call.read_body()
        size += len(piece)
        limit = self._gateway.limits.request_bytes
        if size > limit:
            raise refuse_body(f"A file has at most {limit:,} bytes.", "file")
        await self._uploads.append(upload, piece)
        if "finalize" not in call.headers.get("x-goog-upload-command", ""):
            await call.answer(200, b"{}", {_STATUS: "active"})
            return
        if upload.size not in (None, size):
            raise refuse_body(f"The upload must have {upload.size} bytes.", "file")
        data = await self._uploads.finish(upload)
        file = FormFile(data, upload.name, upload.media_type)
        await self._store(call, upload.subject, file, {_STATUS: "final"})

    async def _store(
        self, call: HttpCall, subject: str, file: FormFile, headers: Mapping[str, str]
    ) -> None:
        stored = await self._runner.add_file(
            file, purpose=PURPOSE, subject=subject, ends=int(time.time()) + _LIFE_SECONDS
        )
        answer = json.dumps({"file": self._describe(call, stored)}).encode()
        await call.answer(200, answer, dict(headers))

    async def survey(self, call: HttpCall, record: CallRecord) -> None:
        """List the client's files. Raises ConverseError."""
        await self._gateway.authorize(call, record)
        size, start = call.query.get("pageSize", "100"), call.query.get("pageToken", "0")
        numbers = [text.isascii() and text.isdigit() and len(text) < 9 for text in (size, start)]
        if not all(numbers) or int(size) < 1:
            raise refuse_body("pageSize and pageToken must be numbers.", "pageSize")
        files = (await self._files.survey(record.subject))[::-1]
        end = int(start) + int(size)
        page: Fields = {"files": [self._describe(call, each) for each in files[int(start) : end]]}
        if len(files) > end:
            page["nextPageToken"] = str(end)
        await call.send_json(page)

    async def retrieve(self, call: HttpCall, record: CallRecord) -> None:
        """Return the metadata of a file. Raises ConverseError."""
        await call.send_json(self._describe(call, await self._find(call, record)))

    async def delete(self, call: HttpCall, record: CallRecord) -> None:
        """Delete a file. Raises ConverseError."""
        await self._files.delete(await self._find(call, record))
        await call.send_json({})

    async def _find(self, call: HttpCall, record: CallRecord) -> ClientFile:
        await self._gateway.authorize(call, record)
        return await self._files.find(call.names["id"], record.subject)

    def _describe(self, call: HttpCall, file: ClientFile) -> Fields:
        ends = {} if file.ends is None else {"expirationTime": write_moment(file.ends)}
        return {
            "name": f"files/{file.id}",
            "displayName": file.name,
            "mimeType": file.media_type,
            "sizeBytes": str(file.size_bytes),
            "createTime": write_moment(file.created),
            "updateTime": write_moment(file.created),
            **ends,
            "uri": f"{_find_origin(call)}/{self._version}/files/{file.id}",
            "state": "ACTIVE",
        }


def _find_origin(call: HttpCall) -> str:
    """Return the address under which the client reached the gateway."""
    return f"{call.scope.get('scheme', 'http')}://{call.headers.get('host', 'localhost')}"


def _read_metadata(body: Any) -> str:
    """Return the name in the metadata of an upload, in either spelling."""
    file = body.get("file") if isinstance(body, Mapping) else None
    fields = file if isinstance(file, Mapping) else {}
    name = fields.get("displayName") or fields.get("display_name") or ""
    return name if isinstance(name, str) else ""


def _read_related(body: bytes, content_type: str) -> FormFile:
    """Read an upload in one request: metadata and data in ``multipart/related``."""
    boundary = _BOUNDARY.search(content_type)
    parts = body.split(b"--" + boundary[1].encode("latin-1", "replace")) if boundary else []
    if len(parts) != 4:
        raise refuse_body("An upload has two parts: metadata as JSON, and the data.")
    _, _, metadata = parts[1].partition(b"\r\n\r\n")
    head, _, data = parts[2].partition(b"\r\n\r\n")
    found = re.search(rb"(?i)content-type:[ \t]*([!-~]+)", head)
    media_type = found[1].decode() if found else ""
    name = _read_metadata(decode_body(metadata.strip()))
    return FormFile(data.removesuffix(b"\r\n"), name, media_type)
