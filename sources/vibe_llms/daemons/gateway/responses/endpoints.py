"""Endpoints for stored responses: read, delete, cancel, and list the input."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final
from urllib.parse import quote

from vibe_llms.daemons.asgi import HttpCall, refuse_body
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.passthrough import pass_through
from vibe_llms.daemons.gateway.responses.background import pause, send_frames
from vibe_llms.daemons.gateway.responses.items import compose_page, write_items
from vibe_llms.daemons.gateway.responses.response_bodies import Fields
from vibe_llms.daemons.gateway.responses.rows import GatewayResponse
from vibe_llms.daemons.gateway.responses.storage import ResponseStorage
from vibe_llms.daemons.gateway.upstreams import can_pass_through
from vibe_llms.daemons.records import CallRecord
from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.providers.remote_models import RemoteModel

_LATE_READS: Final = 2
"""Attempts to read the events of a response that has just ended in another process."""

_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")


class ResponseEndpoints:
    """The paths below ``/v1/responses/{id}``.

    Args:
        gateway: Authenticates clients, and finds upstreams.
        storage: The storage.
        face: The protocol.
    """

    def __init__(self, gateway: Gateway, storage: ResponseStorage, face: Face) -> None:
        self._gateway = gateway
        self._storage = storage
        self._face = face

    async def retrieve(self, call: HttpCall, record: CallRecord) -> None:
        """Return a response with its output so far. Raises ConverseError."""
        found = await self._find(call, record)
        if not found.conversation:
            await self._pass_to_upstream(call, record, found)
            return
        after = _read_stream_start(call.query)
        if after is not None:
            await self._stream(call, found, after)
            return
        await call.send_json(await self.compose(found))

    async def delete(self, call: HttpCall, record: CallRecord) -> None:
        """Delete a response. Raises ConverseError."""
        found = await self._find(call, record)
        if not found.conversation:
            await self._pass_to_upstream(call, record, found)
            if call.status >= 400:
                return
            await self._storage.delete(found)
            return
        await self._storage.delete(found)
        await call.send_json({"id": found.id, "object": "response", "deleted": True})

    async def cancel(self, call: HttpCall, record: CallRecord) -> None:
        """Cancel a background response. Raises ConverseError."""
        found = await self._find(call, record)
        if not found.conversation:
            await self._pass_to_upstream(call, record, found, "/cancel")
            return
        if not found.is_in_background:
            raise refuse_body("Only a response in the background can be cancelled.")
        if found.is_running:
            await self._storage.background.cancel(found)
            found = await self._storage.access_response(found.id, record.subject)
        await call.send_json(await self.compose(found))

    async def _stream(self, call: HttpCall, found: GatewayResponse, after: int) -> None:
        """Stream the events of a background response from a number on."""
        background = self._storage.background
        frames = await background.read_frames(found.id)
        run = background.find(found.id)
        if run is not None and frames is not None:  # running in this process
            await send_frames(call, run.follow(after))
            return
        late_reads = _LATE_READS
        while frames == [] and (found.is_running or late_reads):
            if not found.is_running:  # its process writes the events just after the end
                late_reads -= 1
            await pause()
            found = await self._storage.access_response(found.id, found.subject)
            frames = await background.read_frames(found.id)
        if not frames:
            raise _refuse_stream(found, is_lost=frames is not None)
        await send_frames(call, _encode(text for number, text in frames if number > after))

    async def list_input(self, call: HttpCall, record: CallRecord) -> None:
        """Return a page of the input items. Raises ConverseError."""
        found = await self._find(call, record)
        if not found.conversation:
            await self._pass_to_upstream(call, record, found, "/input_items")
            return
        canisters = await self._storage.read_canisters(found)
        output = frozenset(found.output)
        inputs = [each for identity, each in canisters.items() if identity not in output]
        await call.send_json(compose_page(write_items(inputs), call.query))

    async def compose(self, found: GatewayResponse) -> Fields:
        """Return the body of a response. Raises StoreError."""
        canisters = await self._storage.read_canisters(found) if found.output else {}
        output = write_items(canisters[each] for each in found.output if each in canisters)
        return {**found.body, "id": found.id, "status": found.status, "output": output}

    async def _find(self, call: HttpCall, record: CallRecord) -> GatewayResponse:
        record.face = self._face.name
        await self._gateway.authorize(call, record)
        call.watch_client()
        return await self._storage.access_response(call.names["id"], record.subject)

    async def _pass_to_upstream(
        self, call: HttpCall, record: CallRecord, found: GatewayResponse, suffix: str = ""
    ) -> None:
        """Pass a request through to the upstream that stores the response.

        Args:
            suffix: Added to the path of the response, such as ``/cancel``.
        """
        path = f"/responses/{quote(found.id, safe='')}{suffix}"
        await pass_to_upstream(self._gateway, self._face, call, record, found, lambda _: path)


async def pass_to_upstream(
    gateway: Gateway,
    face: Face,
    call: HttpCall,
    record: CallRecord,
    found: GatewayResponse,
    find_path: Callable[[RemoteModel], str],
) -> None:
    """Pass a request through to the upstream that stores a response.

    Args:
        find_path: Returns the path after the upstream's base URL; the query is added.

    Raises:
        ConverseError: The upstream is unreachable, or uses another protocol.
    """
    upstream = await gateway.upstreams.reach(found.address)
    record.address = upstream.address
    if not can_pass_through(upstream.model, face.dialect.PROTOCOL):
        raise refuse_body(f"Cannot read the response from {found.address}, which stores it.")
    request = ClientRequest(
        body=b"",
        model="",
        streaming=call.query.get("stream", "").lower() == "true",
        rename=None,
        method=call.method,
        find_path=find_path,
    )
    passing = GatewayCall(gateway=gateway, http=call, record=record, face=face)
    passing.request, passing.upstream = request, upstream
    await pass_through(passing)
    record.usage = None  # it was recorded when the response was created


def wants_stream(query: Mapping[str, str]) -> bool:
    """Return whether a client requests the events. Raises RequestError for an invalid query."""
    streaming = query.get("stream", "false").lower()
    if streaming not in ("true", "false"):
        raise refuse_body("stream must be true or false.", "stream")
    return streaming == "true"


def _read_stream_start(query: Mapping[str, str]) -> int | None:
    """Return the number after which to stream events; ``None`` without streaming.

    Raises:
        RequestError: The query is invalid.
    """
    streaming = wants_stream(query)
    after = query.get("starting_after", "-1")
    if not _NUMBER.fullmatch(after):
        raise refuse_body("starting_after must be the number of an event.", "starting_after")
    return int(after) if streaming else None


async def _encode(frames: Iterable[str]) -> AsyncIterator[bytes]:
    for text in frames:
        yield text.encode()


def _refuse_stream(found: GatewayResponse, *, is_lost: bool) -> RequestError:
    if is_lost:
        reason = "its gateway process ended before it, and its events are lost"
    else:
        reason = "it was not requested with background and stream"
    return RequestError(
        path="stream",
        detail=f"The response {found.id} cannot be streamed: {reason}.",
        remedy="Read it without stream.",
        stage=Stage.FRAME,
    )
