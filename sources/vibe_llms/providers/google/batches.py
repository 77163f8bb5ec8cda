"""Batches of the Gemini API: the requests are in the body that creates a batch.

Our name for a batch is its display name, so that the batch can be found again with certainty.
Source: https://ai.google.dev/gemini-api/docs/batch-api and https://ai.google.dev/api/batch-api,
read 2026-11-29, and ``batches.py`` of the package google-genai 3.6.1.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from vibe_llms.exceptions import ConverseError, RequestError, Stage, StreamTruncatedError
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.providers.batches import (
    BatchBounds,
    BatchRequest,
    BatchResult,
    BatchState,
    Fate,
    Sighting,
)
from vibe_llms.providers.request_encoding import EncodedBody, encode_body
from vibe_llms.providers.vendors import VendorClient

METHODS: Final = {
    "generateContent": "batchGenerateContent",
    "batchEmbedContents": "asyncBatchEmbedContent",
}
"""From the methods of single requests to those that create batches."""

BYTES: Final = 20_000_000
"""The limit of requests in a body; files may have more."""

REQUESTS: Final = 1_000
"""Our own limit: all answers come in one body."""

_T = TypeVar("_T")

_PAGE: Final = 100
_END_STATES: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"})
_KEY: Final = "key"


class _Stats(msgspec.Struct, rename="camel"):
    """Counts, which are texts in JSON."""

    request_count: int | str = 0
    successful_request_count: int | str = 0
    failed_request_count: int | str = 0


class _Entry(msgspec.Struct):
    response: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")
    metadata: dict[str, Any] = {}


class _Entries(msgspec.Struct):
    entries: list[_Entry] = msgspec.field(default_factory=list, name="inlinedResponses")


class _Output(msgspec.Struct, rename="camel"):
    inlined_responses: _Entries | None = None
    inlined_embed_content_responses: _Entries | None = None


class _Error(msgspec.Struct):
    message: str = ""


class _Batch(msgspec.Struct, rename="camel"):
    state: str = ""
    display_name: str = ""
    create_time: datetime | None = None
    batch_stats: _Stats = msgspec.field(default_factory=_Stats)
    output: _Output = msgspec.field(default_factory=_Output)


class _Operation(msgspec.Struct):
    name: str
    metadata: _Batch
    error: _Error | None = None


class _Page(msgspec.Struct, rename="camel"):
    operations: list[_Operation] = []
    next_page_token: str = ""


class _Embedded(msgspec.Struct, rename="camel"):
    embedding: msgspec.Raw
    token_count: int | str | None = None


class InlineBatches:
    """The batches of one model.

    Args:
        client: The client that sends requests to the vendor.
        path: Path of single requests: one of :data:`METHODS` of the model.
        root: Beginning of all paths.
    """

    def __init__(self, client: VendorClient, path: str, root: str) -> None:
        self._client = client
        resource, _, method = path.rpartition(":")
        self._path = f"{resource}:{METHODS[method]}"
        self._is_embedding = method == "batchEmbedContents"
        self._root = root
        size = min(BYTES, client.vendor.context.limits.request_bytes)
        self.bounds = BatchBounds(requests=REQUESTS, bytes=size - 1_000)

    def encode(self, identity: str, native: JsonObject) -> BatchRequest:
        """Return a request with its name. Raises RequestError."""
        request = self._client.vendor.prepare_body(native)
        if self._is_embedding:
            request = _find_only(request)
        entry: JsonObject = {"request": request, "metadata": {_KEY: identity}}
        return BatchRequest(id=identity, data=encode_body(entry))

    async def submit(self, chunk: str, requests: Sequence[BatchRequest]) -> str:
        """Send all requests at once."""
        entries = b",".join(each.data for each in requests)
        head = b'{"batch":{"displayName":' + msgspec.json.encode(chunk)
        body = head + b',"inputConfig":{"requests":{"requests":[' + entries + b"]}}}}"
        data = await self._read("POST", self._path, EncodedBody(body))
        return _decode(data, _Operation).name

    async def find(
        self, chunk: str, *, since: float, requests: Sequence[str], known: Collection[str]
    ) -> Sighting:
        """Find the batch with our name."""
        token = ""
        while True:
            query = urlencode({"pageSize": _PAGE} | ({"pageToken": token} if token else {}))
            page = _decode(await self._read("GET", f"{self._root}/batches?{query}"), _Page)
            for operation in page.operations:
                if operation.metadata.display_name == chunk:
                    return Sighting(id=operation.name)
            before, token = token, page.next_page_token
            if not token or token == before:  # an unchanged token would request one page forever
                return Sighting()

    async def poll(self, identity: str) -> BatchState:
        """Return the state of a batch."""
        return _read_state(await self._request(identity))

    async def read(self, state: BatchState) -> AsyncIterator[BatchResult]:
        """Yield the results. Each request of a batch that has expired has one, too."""
        operation = await self._request(state.id)
        batch = operation.metadata
        output = batch.output
        found = output.inlined_responses or output.inlined_embed_content_responses or _Entries()
        for place, entry in enumerate(found.entries):
            name = entry.metadata.get(_KEY)
            yield self._convert(str(name or f"{batch.display_name}-{place}"), entry)
        count = len(found.entries)
        ending = _find_ending(batch)
        if count < state.requests and ending == "SUCCEEDED":
            raise StreamTruncatedError(
                detail=f"Received {count:,} of {state.requests:,} results of the batch {state.id}."
            )
        if ending == "EXPIRED" and not count:
            for place in range(state.requests):
                yield BatchResult(id=f"{batch.display_name}-{place}", fate=Fate.EXPIRED)

    async def cancel(self, identity: str) -> None:
        """Ask the vendor to cancel a batch."""
        await self._read("POST", f"{self._compose_path(identity)}:cancel", EncodedBody(b"{}"))

    def _convert(self, name: str, entry: _Entry) -> BatchResult:
        if not bytes(entry.response):
            body = b'{"error":' + (bytes(entry.error) or b"{}") + b"}"
            return BatchResult(id=name, fate=Fate.FAILED, body=body)
        body = bytes(entry.response)
        if self._is_embedding:
            embedded = _decode(body, _Embedded)
            usage = b""
            if embedded.token_count is not None:
                tokens = str(int(embedded.token_count)).encode()
                usage = b',"usageMetadata":{"promptTokenCount":' + tokens + b"}"
            body = b'{"embeddings":[' + bytes(embedded.embedding) + b"]" + usage + b"}"
        return BatchResult(id=name, fate=Fate.ANSWERED, body=body, status=200)

    async def _request(self, identity: str) -> _Operation:
        return _decode(await self._read("GET", self._compose_path(identity)), _Operation)

    def _compose_path(self, identity: str) -> str:
        return f"{self._root}/{quote(identity, safe='/')}"

    async def _read(self, method: str, path: str, encoded: EncodedBody | None = None) -> bytes:
        async with await self._client.send(method, path, None, encoded=encoded) as exchange:
            return await exchange.read()


def _find_only(native: JsonObject) -> JsonObject:
    """Return the only request of a call. Raises RequestError."""
    requests: Any = native.get("requests")
    if not isinstance(requests, Sequence) or len(requests) != 1:
        detail = "A request of a batch of vectors has one text."
        raise RequestError(path="texts", detail=detail, remedy="Send each text by itself.")
    only: JsonObject = requests[0]
    return only


def _find_ending(batch: _Batch) -> str:
    """Return how a batch has ended, such as ``SUCCEEDED``; empty if it is in progress."""
    state = batch.state.rpartition("_STATE_")[2]
    return state if state in _END_STATES else ""


def _read_state(operation: _Operation) -> BatchState:
    batch = operation.metadata
    stats, ending = batch.batch_stats, _find_ending(batch)
    failure = ""
    if ending == "FAILED":
        failure = (operation.error.message if operation.error else "") or "no reason given"
    return BatchState(
        id=operation.name,
        created=0.0 if batch.create_time is None else batch.create_time.timestamp(),
        has_ended=bool(ending),
        requests=int(stats.request_count),
        done=int(stats.successful_request_count) + int(stats.failed_request_count),
        failure=failure,
    )


def _decode(data: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(data, type=kind, strict=False)
    except UNREADABLE as error:
        raise ConverseError(
            detail="The answer about a batch is invalid.", stage=Stage.DECODE
        ) from error
