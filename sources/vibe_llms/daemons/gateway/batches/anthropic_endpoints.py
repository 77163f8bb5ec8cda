"""Anthropic's batches: the paths below ``/v1/messages/batches``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from vibe_llms.daemons.asgi import HttpCall, refuse_body
from vibe_llms.daemons.bodies import decode_body, perform_sized, read_json_body
from vibe_llms.daemons.gateway.batches.answers import describe_losses
from vibe_llms.daemons.gateway.batches.clients import identify
from vibe_llms.daemons.gateway.batches.files import perform
from vibe_llms.daemons.gateway.batches.running import GatewayBatchRunner
from vibe_llms.daemons.gateway.batches.storage import (
    BatchedAnswer,
    BatchedRequest,
    GatewayBatch,
    GatewayBatchStorage,
)
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.foundation.json_types import JsonObject, JsonValue

PREFIX: Final = "msgbatch_"
PATH: Final = "/v1/messages"
MOST_REQUESTS: Final = 100_000
"""As at Anthropic: https://platform.claude.com/docs/en/build-with-claude/batch-processing, read
2026-11-29."""

_MOST_LISTED: Final = 1_000


class MessageBatchEndpoints:
    """Create, list, read, cancel and delete batches of Anthropic's clients.

    Args:
        gateway: Authenticates clients.
        runner: Runs the batches.
    """

    def __init__(self, gateway: Gateway, runner: GatewayBatchRunner) -> None:
        self._gateway = gateway
        self._runner = runner
        self._storage = runner.storage

    async def create(self, call: HttpCall, record: CallRecord) -> None:
        """Create a batch. Raises ConverseError."""
        client = await identify(self._gateway, call, record)
        body = await read_json_body(call)
        fields = await perform_sized(body, lambda: decode_body(body))
        items = await perform(lambda: list(_read_items(fields.get("requests"))))
        batch = await self._runner.submit(PREFIX, PATH, items, client)
        await call.send_json(_describe(batch, call))

    async def survey(self, call: HttpCall, record: CallRecord) -> None:
        """List the client's batches, newest first. Raises ConverseError."""
        batches = await self._runner.survey(PREFIX, await identify(self._gateway, call, record))
        await call.send_json(_compose_page([_describe(each, call) for each in batches[::-1]], call))

    async def retrieve(self, call: HttpCall, record: CallRecord) -> None:
        """Return the state of a batch. Raises ConverseError."""
        await call.send_json(_describe(await self._find(call, record), call))

    async def cancel(self, call: HttpCall, record: CallRecord) -> None:
        """Cancel a batch; requests under way still finish. Raises ConverseError."""
        batch = await self._runner.cancel(await self._find(call, record))
        await call.send_json(_describe(batch, call))

    async def read_results(self, call: HttpCall, record: CallRecord) -> None:
        """Return the results of a batch that has ended, a line each. Raises ConverseError."""
        batch = await self._find(call, record)
        if not batch.is_over:
            raise refuse_body("The batch has not ended yet; its results come all at once.")
        lines = await perform(lambda: _encode_results(self._storage, batch))
        await call.answer(200, lines, {}, content_type="application/x-jsonl")

    async def delete(self, call: HttpCall, record: CallRecord) -> None:
        """Delete a batch that has ended. Raises ConverseError."""
        batch = await self._find(call, record)
        if not batch.is_over:
            raise refuse_body("The batch has not ended yet. Cancel it first.")
        await perform(self._storage.delete, batch)
        await call.send_json({"id": batch.id, "type": "message_batch_deleted"})

    async def _find(self, call: HttpCall, record: CallRecord) -> GatewayBatch:
        client = await identify(self._gateway, call, record)
        return await self._runner.find(call.names["id"], PREFIX, client)


def _read_items(requests: Any) -> Iterator[BatchedRequest]:
    """Read the requests of a batch. Raises RequestError for the first invalid one."""
    if not isinstance(requests, list) or not requests:
        raise refuse_body("A batch needs a list of requests.", "requests")
    if len(requests) > MOST_REQUESTS:
        detail = f"The batch has {len(requests):,} requests; at most {MOST_REQUESTS:,} can be."
        raise refuse_body(detail, "requests")
    seen: set[str] = set()
    for index, request in enumerate(requests):
        place = f"requests[{index}]"
        fields: dict[str, Any] = request if isinstance(request, dict) else {}
        custom_id, params = fields.get("custom_id"), fields.get("params")
        if not isinstance(custom_id, str) or not custom_id:
            raise refuse_body("The request has no custom_id.", f"{place}.custom_id")
        if custom_id in seen:
            raise refuse_body(
                f"The custom_id {custom_id[:100]!r} is repeated.", f"{place}.custom_id"
            )
        if not isinstance(params, dict):
            raise refuse_body("The request has no params.", f"{place}.params")
        if params.get("stream"):
            raise refuse_body("A batch cannot have a stream.", f"{place}.params.stream")
        seen.add(custom_id)
        body = msgspec.Raw(msgspec.json.encode(params))
        yield BatchedRequest(custom_id=custom_id, path=PATH, body=body)


def _describe(batch: GatewayBatch, call: HttpCall) -> JsonObject:
    remaining = batch.total - batch.completed - batch.failed
    counts = {"processing": remaining, "succeeded": batch.completed, "errored": batch.failed}
    counts |= {"canceled": 0, "expired": 0}
    if batch.status in ("cancelled", "expired"):
        counts |= {
            "processing": 0,
            "canceled" if batch.status == "cancelled" else "expired": remaining,
        }
    status = "ended" if batch.is_over else "in_progress"
    results = f"{_read_origin(call)}{PATH}/batches/{batch.id}/results" if batch.is_over else None
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "canceling" if batch.status == "cancelling" else status,
        "request_counts": counts,
        "created_at": _write_moment(batch.created),
        "expires_at": _write_moment(batch.expires),
        "ended_at": _write_moment(batch.ended),
        "cancel_initiated_at": _write_moment(batch.cancelling),
        "archived_at": None,
        "results_url": results,
    }


def _read_origin(call: HttpCall) -> str:
    """Return the gateway's own address, as the client used it."""
    return f"{call.scope.get('scheme', 'http')}://{call.headers.get('host', 'localhost')}"


def _write_moment(moment: int | None) -> JsonValue:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat()


def _encode_results(storage: GatewayBatchStorage, batch: GatewayBatch) -> bytes:
    results = storage.read_results(batch)
    answered = {result.custom_id for result in results}
    missing = "canceled" if batch.status == "cancelled" else "expired"
    lines: list[dict[str, Any]] = [_write_result(result) for result in results]
    lines += [
        {"custom_id": item.custom_id, "result": {"type": missing}}
        for item in storage.read_items(batch)
        if item.custom_id not in answered
    ]
    return msgspec.json.Encoder().encode_lines(lines)


def _write_result(result: BatchedAnswer) -> dict[str, Any]:
    if result.is_success:
        return {
            "custom_id": result.custom_id,
            "result": {"type": "succeeded", "message": result.body},
            **describe_losses(result),
        }
    return {
        "custom_id": result.custom_id,
        "result": {"type": "errored", "error": result.body},
        **describe_losses(result),
    }


def _compose_page(batches: list[JsonObject], call: HttpCall) -> JsonObject:
    """Return a page of a list, as requested by ``limit``, ``after_id`` and ``before_id``."""
    text = call.query.get("limit", "20")
    if not (
        text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= _MOST_LISTED
    ):
        raise refuse_body(f"limit must be between 1 and {_MOST_LISTED}.", "limit")
    limit, identities = int(text), [batch["id"] for batch in batches]
    has_more = False
    after, before = call.query.get("after_id"), call.query.get("before_id")
    if after in identities:
        batches = batches[identities.index(after) + 1 :]
    elif before in identities:
        batches = batches[: identities.index(before)]
        batches, has_more = batches[-limit:], len(batches) > limit
    page = batches[:limit]
    return {
        "data": page,
        "has_more": has_more or len(page) < len(batches),
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
    }
