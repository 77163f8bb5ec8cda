"""OpenAI's batches: the paths below ``/v1/batches``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from vibe_llms.daemons.asgi import HttpCall, refuse_body
from vibe_llms.daemons.bodies import decode_body, read_json_body
from vibe_llms.daemons.gateway.batches.clients import identify
from vibe_llms.daemons.gateway.batches.files import perform
from vibe_llms.daemons.gateway.batches.running import GatewayBatchRunner
from vibe_llms.daemons.gateway.batches.storage import BatchedRequest, GatewayBatch
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.responses.items import compose_page
from vibe_llms.daemons.gateway.responses.response_bodies import Fields
from vibe_llms.daemons.records import CallRecord
from vibe_llms.foundation.json_errors import UNREADABLE

WINDOW: Final = "24h"
PREFIX: Final = "batch_"
PATHS: Final = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/images/generations",
    "/v1/moderations",
    "/v1/responses",
)
"""Paths that the requests of a batch may have."""

MOST_METADATA_BYTES: Final = 65_536
"""More than OpenAI accepts. The metadata are read again for each request of the batch."""

MOST_REQUESTS: Final = 50_000
"""As at OpenAI: https://platform.openai.com/docs/guides/batch, read 2026-11-29."""


class BatchEndpoints:
    """Create, list, read and cancel batches of OpenAI's clients.

    Args:
        gateway: Authenticates clients.
        runner: Runs the batches.
    """

    def __init__(self, gateway: Gateway, runner: GatewayBatchRunner) -> None:
        self._gateway = gateway
        self._runner = runner
        self._files = runner.files

    async def create(self, call: HttpCall, record: CallRecord) -> None:
        """Create a batch of the requests in a file. Raises ConverseError."""
        client = await identify(self._gateway, call, record)
        fields = decode_body(await read_json_body(call))
        path = fields.get("endpoint")
        if path not in PATHS:
            raise refuse_body(f"The endpoint must be one of {', '.join(PATHS)}.", "endpoint")
        if fields.get("completion_window", WINDOW) != WINDOW:
            raise refuse_body(f"The completion_window must be {WINDOW!r}.", "completion_window")
        metadata = fields.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            raise refuse_body("metadata must be an object.", "metadata")
        if len(msgspec.json.encode(metadata)) > MOST_METADATA_BYTES:
            raise refuse_body(f"metadata has more than {MOST_METADATA_BYTES:,} bytes.", "metadata")
        file = await self._files.find(str(fields.get("input_file_id")), record.subject)
        data = await self._files.read(file)
        items = await perform(lambda: list(_read_items(data, path)))
        batch = await self._runner.submit(
            PREFIX,
            path,
            items,
            client,
            input_file=file.id,
            metadata=metadata,
        )
        await call.send_json(_describe(batch))

    async def survey(self, call: HttpCall, record: CallRecord) -> None:
        """List the client's batches. Raises ConverseError."""
        batches = await self._runner.survey(PREFIX, await identify(self._gateway, call, record))
        await call.send_json(compose_page([_describe(batch) for batch in batches], call.query))

    async def retrieve(self, call: HttpCall, record: CallRecord) -> None:
        """Return the state of a batch. Raises ConverseError."""
        await call.send_json(_describe(await self._find(call, record)))

    async def cancel(self, call: HttpCall, record: CallRecord) -> None:
        """Cancel a batch; requests under way still finish. Raises ConverseError."""
        await call.send_json(_describe(await self._runner.cancel(await self._find(call, record))))

    async def _find(self, call: HttpCall, record: CallRecord) -> GatewayBatch:
        client = await identify(self._gateway, call, record)
        return await self._runner.find(call.names["id"], PREFIX, client)


def _read_items(data: bytes, path: str) -> Iterator[BatchedRequest]:
    """Read the lines of an input file.

    Raises:
        RequestError: A line is invalid; the error names its number.
    """
    seen: set[str] = set()
    lines = [(number, line) for number, line in enumerate(data.splitlines(), 1) if line.strip()]
    if not lines:
        raise refuse_body("The input file has no requests.", "input_file_id")
    if len(lines) > MOST_REQUESTS:
        detail = f"The input file has {len(lines):,} requests; at most {MOST_REQUESTS:,} can be."
        raise refuse_body(detail, "input_file_id")
    for number, line in lines:
        try:
            fields: Any = msgspec.json.decode(line)
        except UNREADABLE as error:
            raise _refuse_line(number, f"is not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise _refuse_line(number, "is not an object")
        custom_id, body = fields.get("custom_id"), fields.get("body")
        if not isinstance(custom_id, str) or not custom_id:
            raise _refuse_line(number, "has no custom_id")
        if custom_id in seen:
            raise _refuse_line(number, f"repeats the custom_id {custom_id[:100]!r}")
        if fields.get("method", "POST") != "POST" or fields.get("url") != path:
            raise _refuse_line(number, f"must have the method POST and the url {path!r}")
        if not isinstance(body, dict):
            raise _refuse_line(number, "has no body")
        if body.get("stream"):
            raise _refuse_line(number, "requests a stream, which a batch cannot have")
        seen.add(custom_id)
        yield BatchedRequest(
            custom_id=custom_id, path=path, body=msgspec.Raw(msgspec.json.encode(body))
        )


def _refuse_line(number: int, problem: str) -> Exception:
    return refuse_body(f"Line {number} of the input file {problem}.", "input_file_id")


def _describe(batch: GatewayBatch) -> Fields:
    counts = {"total": batch.total, "completed": batch.completed, "failed": batch.failed}
    ends: Fields = {f"{batch.status}_at": batch.ended} if batch.is_over else {}
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.path,
        "errors": None,
        "input_file_id": batch.input_file,
        "completion_window": WINDOW,
        "status": batch.status,
        "output_file_id": batch.output_file,
        "error_file_id": batch.error_file,
        "created_at": batch.created,
        "in_progress_at": batch.created,
        "expires_at": batch.expires,
        "cancelling_at": batch.cancelling,
        "request_counts": counts,
        "metadata": batch.metadata,
        **ends,
    }
