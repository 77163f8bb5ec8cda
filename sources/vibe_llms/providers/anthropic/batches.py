"""Anthropic's Message Batches.

Batches of this vendor have neither a field for a name nor an idempotency key, and a batch in
progress does not show its requests. A batch is identified by its results, which exist only after
its end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from vibe_llms.dialects.messages.tables import SAMPLING_FIELDS
from vibe_llms.exceptions import ConverseError, Stage, StreamTruncatedError
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
from vibe_llms.providers.request_encoding import EncodedBody, encode_body
from vibe_llms.providers.vendors import VendorClient

REQUESTS: Final = 100_000
BYTES: Final = 256_000_000
"""The limits of one batch. Source:
https://platform.claude.com/docs/en/build-with-claude/batch-processing, read 2026-11-26.
"""

_PATH: Final = "/v1/messages/batches"
_PAGE: Final = 100
_HEADER_FIELDS: Final = ("betas", *SAMPLING_FIELDS)
_BRACKETS: Final = len('{"requests":[]}')

_FATES: Final = {
    "succeeded": Fate.ANSWERED,
    "errored": Fate.FAILED,
    "canceled": Fate.CANCELLED,
    "expired": Fate.EXPIRED,
}

_COUNTS: Final = tuple(_FATES)


class _Result(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


class _Line(msgspec.Struct):
    custom_id: str
    result: _Result


_decode_line: Final = msgspec.json.Decoder(_Line).decode


class MessageBatches:
    """The batches of one account.

    Args:
        client: The client that sends requests to the vendor.
    """

    def __init__(self, client: VendorClient) -> None:
        self._client = client
        limit = client.vendor.context.limits.request_bytes
        self.bounds = BatchBounds(requests=REQUESTS, bytes=min(BYTES, limit) - _BRACKETS)

    def encode(self, identity: str, native: JsonObject) -> BatchRequest:
        """Return a request with its name; see :class:`VendorBatches`."""
        params = self._client.vendor.prepare_body(native)
        return BatchRequest(
            id=identity,
            data=encode_body({"custom_id": identity, "params": params}),
            heading={name: native[name] for name in _HEADER_FIELDS if name in native},
        )

    async def submit(self, chunk: str, requests: Sequence[BatchRequest]) -> str:
        """Send all requests at once."""
        body = b'{"requests":[' + b",".join(each.data for each in requests) + b"]}"
        answer = await self._client.request_json(
            "POST", _PATH, _merge_headings(requests), encoded=EncodedBody(body)
        )
        return _read_state(answer).id

    async def find(
        self, chunk: str, *, since: float, requests: Sequence[str], known: Collection[str]
    ) -> Sighting:
        """Search the batches of equal size; of ended ones, search the results."""
        names, is_undecided = set(requests), False
        async for state in self._list(since - SKEW_SECONDS):
            if state.id in known or state.requests != len(names):
                continue
            if not state.has_ended:
                is_undecided = True
            elif await self._read_first_name(state) in names:
                return Sighting(id=state.id)
        return Sighting(is_undecided=is_undecided)

    async def poll(self, identity: str) -> BatchState:
        """Return the state of a batch. Its counts stay 0 until the whole batch has ended."""
        return _read_state(await self._client.request_json("GET", _compose_path(identity)))

    async def read(self, state: BatchState) -> AsyncIterator[BatchResult]:
        """Yield the results line by line."""
        count = 0
        async for line in receive_lines(self._client, f"{_compose_path(state.id)}/results"):
            count += 1
            yield _read_result(line)
        # Each request has a line; if one is missing, the answer is incomplete.
        if count < state.requests:
            raise StreamTruncatedError(
                detail=f"Received {count:,} of {state.requests:,} results of the batch {state.id}."
            )

    async def cancel(self, identity: str) -> None:
        """Ask the vendor to cancel a batch."""
        await self._client.request_json("POST", f"{_compose_path(identity)}/cancel")

    async def _list(self, since: float) -> AsyncIterator[BatchState]:
        """Yield the batches created since a time, newest first."""
        after = ""
        while True:
            query = urlencode({"limit": _PAGE} | ({"after_id": after} if after else {}))
            page: Any = await self._client.request_json("GET", f"{_PATH}?{query}")
            states = [_read_state(each) for each in _read_entries(page)]
            for state in states:
                if state.created < since:
                    return
                yield state
            before, after = after, str(page.get("last_id") or "")
            # Otherwise one page would be requested forever.
            if not page.get("has_more") or not after or after == before:
                return

    async def _read_first_name(self, state: BatchState) -> str:
        """Return the id of the request with the first result; empty without results."""
        results = self.read(state)
        try:
            async for result in results:
                return result.id
        finally:
            await results.aclose()  # type: ignore[attr-defined]  # it is a generator
        return ""


def _compose_path(identity: str) -> str:
    return f"{_PATH}/{quote(identity, safe='')}"


def _merge_headings(requests: Sequence[BatchRequest]) -> JsonObject:
    """Merge the header fields of all requests, which are sent together."""
    merged: dict[str, Any] = {}
    betas: dict[str, None] = {}
    for request in requests:
        merged |= {name: value for name, value in request.heading.items() if value is not None}
        values = request.heading.get("betas")
        betas |= dict.fromkeys(map(str, values)) if isinstance(values, (list, tuple)) else {}
    return {**merged, "betas": list(betas)}


def _read_entries(page: object) -> list[Any]:
    entries = page.get("data") if isinstance(page, Mapping) else None
    return entries if isinstance(entries, list) else []


def _read_state(answer: object) -> BatchState:
    """Decode the state of a batch. Raises ConverseError."""
    try:
        batch: Any = answer
        counts = {name: int(batch["request_counts"][name]) for name in ("processing", *_COUNTS)}
        done = sum(counts[name] for name in _COUNTS)
        return BatchState(
            id=str(batch["id"]),
            created=datetime.fromisoformat(batch["created_at"]).timestamp(),
            has_ended=batch["processing_status"] == "ended",
            requests=counts["processing"] + done,
            done=done,
        )
    except (LookupError, TypeError, ValueError) as error:
        raise ConverseError(
            detail="The answer about a batch is invalid.", stage=Stage.DECODE
        ) from error


def _read_result(line: bytes) -> BatchResult:
    decoded = decode_line(_decode_line, line)
    result = decoded.result
    return BatchResult(
        id=decoded.custom_id,
        fate=_FATES.get(result.type, Fate.FAILED),
        body=bytes(result.message) or bytes(result.error),
    )
