"""Files of OpenAI's and Anthropic's clients: the paths below ``/v1/files``.

Both protocols have the same paths; Anthropic's clients send the header ``anthropic-version``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from vibe_llms.daemons.asgi import HttpCall, refuse_body
from vibe_llms.daemons.bodies import perform_sized
from vibe_llms.daemons.gateway.batches.files import ClientFile
from vibe_llms.daemons.gateway.batches.running import GatewayBatchRunner
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.responses.items import compose_page
from vibe_llms.daemons.gateway.responses.response_bodies import Fields
from vibe_llms.daemons.records import CallRecord
from vibe_llms.foundation.forms import FormFile, decode_form

PURPOSES: Final = ("assistants", "batch", "evals", "fine-tune", "user_data", "vision")
"""Purposes that clients may name. They are stored, and only ``batch`` has an effect."""

_ANTHROPIC_PURPOSE: Final = "user_data"
"""Purpose of files in Anthropic's protocol, which has none."""

_SECONDS: Final = range(3_600, 7_776_001)
"""Seconds until the end that a client can set; from one hour to 90 days."""


def is_anthropic(call: HttpCall) -> bool:
    """Return whether a request comes from a client of Anthropic's protocol."""
    return "anthropic-version" in call.headers


class FileEndpoints:
    """Upload, list, read and delete files.

    Args:
        gateway: Authenticates clients.
        runner: Runs the batches, and has the files.
    """

    def __init__(self, gateway: Gateway, runner: GatewayBatchRunner) -> None:
        self._gateway = gateway
        self._runner = runner
        self._files = runner.files

    async def create(self, call: HttpCall, record: CallRecord) -> None:
        """Store an uploaded file. Raises ConverseError."""
        await self._gateway.authorize(call, record)
        body = await call.read_body()
        try:
            content_type = call.headers.get("content-type", "")
            fields = await perform_sized(body, lambda: dict(decode_form(body, content_type)))
        except ValueError as error:
            raise refuse_body(f"The form is invalid: {error}.") from None
        file, purpose = fields.get("file"), fields.get("purpose")
        if not isinstance(file, FormFile):
            raise refuse_body("The form has no file in the field 'file'.", "file")
        if is_anthropic(call):
            purpose, seconds = _ANTHROPIC_PURPOSE, fields.get("expires_in_seconds")
        else:
            seconds = fields.get("expires_after[seconds]")
        if purpose not in PURPOSES:
            raise refuse_body(f"The purpose must be one of {', '.join(PURPOSES)}.", "purpose")
        stored = await self._runner.add_file(
            file, purpose=str(purpose), subject=record.subject, ends=_find_end(seconds)
        )
        await call.send_json(_describe(call, stored))

    async def survey(self, call: HttpCall, record: CallRecord) -> None:
        """List the client's files. Raises ConverseError."""
        await self._gateway.authorize(call, record)
        purpose = call.query.get("purpose", "")
        files = await self._files.survey(record.subject)
        wanted = [_describe(call, file) for file in files if purpose in ("", file.purpose)]
        await call.send_json(_compose_page(call, wanted))

    async def retrieve(self, call: HttpCall, record: CallRecord) -> None:
        """Return the metadata of a file. Raises ConverseError."""
        await call.send_json(_describe(call, await self._find(call, record)))

    async def read(self, call: HttpCall, record: CallRecord) -> None:
        """Return the content of a file. Raises ConverseError."""
        file = await self._find(call, record)
        await call.answer(
            200, await self._files.read(file), {}, content_type="application/octet-stream"
        )

    async def delete(self, call: HttpCall, record: CallRecord) -> None:
        """Delete a file. Raises ConverseError."""
        file = await self._find(call, record)
        await self._files.delete(file)
        if is_anthropic(call):
            await call.send_json({"id": file.id, "type": "file_deleted"})
        else:
            await call.send_json({"id": file.id, "object": "file", "deleted": True})

    async def _find(self, call: HttpCall, record: CallRecord) -> ClientFile:
        await self._gateway.authorize(call, record)
        return await self._files.find(call.names["id"], record.subject)


def _find_end(seconds: object) -> int | None:
    if seconds is None:
        return None
    is_number = isinstance(seconds, str) and seconds.isascii() and seconds.isdigit()
    if not is_number or len(str(seconds)) > 9 or int(str(seconds)) not in _SECONDS:
        detail = f"A file must end after {_SECONDS[0]} to {_SECONDS[-1]} seconds."
        raise refuse_body(detail, "expires_after")
    return int(time.time()) + int(str(seconds))


def _compose_page(call: HttpCall, files: list[Fields]) -> Fields:
    if not is_anthropic(call):
        return compose_page(files, call.query)
    query: Mapping[str, Any] = {"limit": call.query.get("limit", "20")}
    if after := call.query.get("page") or call.query.get("after_id"):
        query = {**query, "after": after}
    page = compose_page(files, query)
    following = page["last_id"] if page["has_more"] else None
    return {**page, "next_page": following}


def _describe(call: HttpCall, file: ClientFile) -> Fields:
    if is_anthropic(call):
        return {
            "id": file.id,
            "type": "file",
            "filename": file.name,
            "mime_type": file.media_type,
            "size_bytes": file.size_bytes,
            "created_at": write_moment(file.created),
            "expires_at": None if file.ends is None else write_moment(file.ends),
            "downloadable": True,
        }
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size_bytes,
        "created_at": file.created,
        **({} if file.ends is None else {"expires_at": file.ends}),
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
    }


def write_moment(seconds: int) -> str:
    """Return a moment as RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
