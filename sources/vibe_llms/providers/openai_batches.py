"""OpenAI's batches: a file of requests is uploaded, and files of answers and errors come back.

Our name for a batch is in its metadata, so that the batch can be found again with certainty.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from vibe_llms.exceptions import ConverseError, Stage, StreamTruncatedError
from vibe_llms.foundation.forms import FormFile, encode_form
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.providers.batches import (
    SKEW_SECONDS,
    BatchBounds,
    BatchRequest,
    BatchResult,
    BatchState,
    Fate,
    Sighting,
)
from vibe_llms.providers.batching import decode_line, receive_lines
from vibe_llms.providers.request_encoding import encode_body
from vibe_llms.providers.retries import RetryPolicy, repeat
from vibe_llms.providers.vendors import VendorClient

REQUESTS: Final = 50_000
BYTES: Final = 200_000_000
"""The limits of one file. Source: ``BatchCreateParams`` of the PyPI distribution openai 3.54.0."""

PATHS: Final = (
    "/chat/completions",
    "/embeddings",
    "/images/generations",
    "/moderations",
    "/responses",
)
"""Paths whose requests can be batched. Source: ``BatchCreateParams`` of openai 3.57.0."""

_NAME: Final = "vibe_chunk"
"""Key of a batch's metadata for our name."""

_PAGE: Final = 100
_FORM_BYTES: Final = 1_024
"""Upper bound for the size of the multipart form around a file."""

_END_STATES: Final = frozenset({"cancelled", "completed", "expired", "failed"})
_EXPIRED: Final = "batch_expired"
_CANCELLED: Final = "batch_cancelled"
_MAX_FAILURES: Final = 3
"""Maximum errors to report of a rejected file."""


class _Answer(msgspec.Struct):
    status_code: int | None = None
    body: msgspec.Raw = msgspec.Raw(b"")


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Line(msgspec.Struct):
    custom_id: str
    response: _Answer | None = None
    error: _Error | None = None


_decode_line: Final = msgspec.json.Decoder(_Line).decode


class FileBatches:
    """Batches of one account for one endpoint.

    Args:
        client: The client that sends requests to the vendor.
        path: Path of single requests, after the base URL.
    """

    def __init__(self, client: VendorClient, path: str) -> None:
        self._client = client
        self._endpoint = f"/v1{path}"
        limits = client.vendor.context.limits
        self._policy = RetryPolicy.of(limits)
        size = min(BYTES, limits.request_bytes - _FORM_BYTES)
        self.bounds = BatchBounds(requests=REQUESTS, bytes=size)

    def encode(self, identity: str, native: JsonObject) -> BatchRequest:
        """Return a request as a line of the file."""
        line: JsonObject = {
            "custom_id": identity,
            "method": "POST",
            "url": self._endpoint,
            "body": self._client.vendor.prepare_body(native),
        }
        return BatchRequest(id=identity, data=encode_body(line))

    async def submit(self, chunk: str, requests: Sequence[BatchRequest]) -> str:
        """Upload the file, which is free and may be repeated; then create the batch."""
        data = b"".join(each.data + b"\n" for each in requests)
        clock = self._client.vendor.context.clock
        file = await repeat(lambda: self._upload(chunk, data), self._policy, clock)
        body: JsonObject = {
            "input_file_id": file,
            "endpoint": self._endpoint,
            "completion_window": "24h",
            "metadata": {_NAME: chunk},
        }
        return _read_state(await self._client.request_json("POST", "/batches", body)).id

    async def find(
        self, chunk: str, *, since: float, requests: Sequence[str], known: Collection[str]
    ) -> Sighting:
        """Find the batch with our name."""
        after = ""
        while True:
            query = urlencode({"limit": _PAGE} | ({"after": after} if after else {}))
            page: Any = await self._client.request_json("GET", f"/batches?{query}")
            entries = page.get("data") if isinstance(page, Mapping) else None
            before = after
            for entry in entries or ():
                state = _read_state(entry)
                if (entry.get("metadata") or {}).get(_NAME) == chunk:
                    return Sighting(id=state.id)
                if state.created < since - SKEW_SECONDS:
                    return Sighting()
                after = state.id
            # Otherwise one page would be requested forever.
            if not page.get("has_more") or after == before:
                return Sighting()

    async def poll(self, identity: str) -> BatchState:
        """Return the state of a batch."""
        return _read_state(await self._request_batch(identity))

    async def read(self, state: BatchState) -> AsyncIterator[BatchResult]:
        """Read both files. Requests that were cancelled before they ran are in neither file."""
        batch = await self._request_batch(state.id)
        count = 0
        for field in ("output_file_id", "error_file_id"):
            file = batch.get(field)
            if not file:
                continue
            path = f"/files/{quote(str(file), safe='')}/content"
            async for line in receive_lines(self._client, path):
                count += 1
                yield _read_result(line)
        # Each counted request has a line; if one is missing, the file is incomplete.
        done = max(state.done, _read_state(batch).done)
        if count < done:
            raise StreamTruncatedError(
                detail=f"Received {count:,} of {done:,} results of the batch {state.id}."
            )

    async def cancel(self, identity: str) -> None:
        """Ask the vendor to cancel a batch."""
        await self._client.request_json("POST", f"/batches/{quote(identity, safe='')}/cancel")

    async def _request_batch(self, identity: str) -> Any:
        return await self._client.request_json("GET", f"/batches/{quote(identity, safe='')}")

    async def _upload(self, chunk: str, data: bytes) -> str:
        file = FormFile(data, f"{chunk}.jsonl", "application/jsonl")
        encoded_form = encode_form((("purpose", "batch"), ("file", file)))
        answer: Any = await self._client.request_json("POST", "/files", encoded=encoded_form)
        identity = answer.get("id") if isinstance(answer, Mapping) else None
        if not isinstance(identity, str):
            raise _refuse_answer()
        return identity


def _read_state(answer: object) -> BatchState:
    """Decode the state of a batch. Raises ConverseError."""
    try:
        batch: Any = answer
        counts = batch.get("request_counts") or {}
        return BatchState(
            id=str(batch["id"]),
            created=float(batch["created_at"]),
            has_ended=batch["status"] in _END_STATES,
            requests=int(counts.get("total") or 0),
            done=int(counts.get("completed") or 0) + int(counts.get("failed") or 0),
            failure=_read_failure(batch) if batch["status"] == "failed" else "",
        )
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise _refuse_answer() from error


def _read_failure(batch: Any) -> str:
    """Return in one line why a file was rejected."""
    errors = (batch.get("errors") or {}).get("data") or ()
    reasons = []
    for each in errors[:_MAX_FAILURES]:
        place = f"line {each['line']}: " if each.get("line") else ""
        reasons.append(f"{place}{each.get('message') or each.get('code')}")
    return "; ".join(reasons) or "no reason given"


def _refuse_answer() -> ConverseError:
    return ConverseError(detail="The answer about a batch is invalid.", stage=Stage.DECODE)


def _read_result(line: bytes) -> BatchResult:
    result = decode_line(_decode_line, line)
    answer, error = result.response, result.error
    if answer is not None:
        is_success = answer.status_code is not None and 200 <= answer.status_code < 300
        return BatchResult(
            id=result.custom_id,
            fate=Fate.ANSWERED if is_success else Fate.FAILED,
            body=bytes(answer.body),
            status=answer.status_code,
        )
    code = None if error is None else error.code
    fate = {_EXPIRED: Fate.EXPIRED, _CANCELLED: Fate.CANCELLED}.get(code or "", Fate.FAILED)
    body = msgspec.json.encode({"error": error}) if fate is Fate.FAILED else b""
    return BatchResult(id=result.custom_id, fate=fate, body=body)
