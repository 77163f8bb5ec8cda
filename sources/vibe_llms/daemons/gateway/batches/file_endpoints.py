"""OpenAI's files: the paths below ``/v1/files``."""

from __future__ import annotations

from typing import Final

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
"""Purposes that clients may name; only files for batches are used here."""


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
        if purpose not in PURPOSES:
            raise refuse_body(f"The purpose must be one of {', '.join(PURPOSES)}.", "purpose")
        stored = await self._runner.add_file(
            file.data, name=file.name, purpose=str(purpose), subject=record.subject
        )
        await call.send_json(_describe(stored))

    async def survey(self, call: HttpCall, record: CallRecord) -> None:
        """List the client's files. Raises ConverseError."""
        await self._gateway.authorize(call, record)
        purpose = call.query.get("purpose", "")
        files = await self._files.survey(record.subject)
        wanted = [_describe(file) for file in files if purpose in ("", file.purpose)]
        await call.send_json(compose_page(wanted, call.query))

    async def retrieve(self, call: HttpCall, record: CallRecord) -> None:
        """Return the metadata of a file. Raises ConverseError."""
        await call.send_json(_describe(await self._find(call, record)))

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
        await call.send_json({"id": file.id, "object": "file", "deleted": True})

    async def _find(self, call: HttpCall, record: CallRecord) -> ClientFile:
        await self._gateway.authorize(call, record)
        return await self._files.find(call.names["id"], record.subject)


def _describe(file: ClientFile) -> Fields:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size_bytes,
        "created_at": file.created,
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
    }
