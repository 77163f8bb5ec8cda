"""OpenAI's Realtime API: the client's WebSocket is connected with the vendor's, unchanged.

Messages go through in both directions. The usage in ``response.done`` is charged to the client's
budget as it arrives; once the budget is spent, the connection ends. It is also added up, for the
record and the metrics.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import msgspec

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.estimating import price_in_cents
from vibe_llms.daemons.gateway.gateway import Gateway, ensure_admitted
from vibe_llms.daemons.gateway.upstreams import Upstream, ensure_unguarded, is_remote
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.server.asgi_types import ClientGone, Receive, Scope, Send
from vibe_llms.daemons.service import Service, generate_request_id
from vibe_llms.dialects.openai_usage import normalize_openai_usage
from vibe_llms.exceptions import (
    AccessError,
    ConverseError,
    LimitError,
    ProviderFault,
    TransportError,
    UnknownNameError,
)
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import Usage
from vibe_llms.plugins.specification.daemons import Demand, Grant, Reservation
from vibe_llms.providers.openai_service import OpenAIService
from vibe_llms.providers.vendor_sockets import open_socket
from vibe_llms.wire.sockets import NO_STATUS

if TYPE_CHECKING:
    from vibe_llms.wire.sockets import Socket

PATH: Final = "/v1/realtime"

LEAST_CENTS: Final = Decimal("0.000001")
"""Reserved for each response, so that a budget that is spent exactly admits no further one."""

# Close codes of RFC 6455.
_POLICY_VIOLATION: Final = 1008
_UPSTREAM_FAILED: Final = 1011
_NORMAL: Final = 1000

_DONE: Final = b'"response.done"'
_GATEWAY_PARAMETERS: Final = ("access_token", "key")
"""Query parameters that may have the client's key of the gateway."""
_PASSED_HEADERS: Final = ("openai-beta", "openai-safety-identifier")


class RealtimeSockets:
    """WebSocket handler.

    Args:
        gateway: Authenticates clients, and finds models.
        service: Its listeners receive the records.
    """

    def __init__(self, gateway: Gateway, service: Service) -> None:
        self._gateway = gateway
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Connect one client with its vendor until either of them closes."""
        await receive()  # websocket.connect
        identity = generate_request_id()
        call = HttpCall({**scope, "method": "GET"}, receive, send, request_id=identity, limit=0)
        loop = asyncio.get_running_loop()
        record = CallRecord(
            request_id=identity,
            method="GET",
            path=call.path,
            route=PATH,
            started=loop.time(),
            client=call.client,
            face="realtime",
            way="passthrough",
            streamed=True,
        )
        try:
            await self._serve(call, record, receive, send)
        except ConverseError as error:
            record.error, record.detail, record.status = error.WORD, str(error), 400
            await send(_compose_close(_POLICY_VIOLATION, str(error)))
        finally:
            record.seconds = loop.time() - record.started
            self._service.report(record)

    async def _serve(
        self, call: HttpCall, record: CallRecord, receive: Receive, send: Send
    ) -> None:
        grant = await self._gateway.authorize(call, record)
        record.model = call.query.get("model", "")
        upstream = await self._gateway.upstreams.access(record.model)
        ensure_admitted(grant, record.model or upstream.address)
        record.address = upstream.address
        account = _ConnectionAccount(grant, record, upstream)
        await account.open()
        try:
            async with await _connect(upstream, call) as vendor:
                record.status = 101
                await send({"type": "websocket.accept"})
                await _relay(vendor, receive, send, account)
        finally:
            record.usage = account.usage
            record.cents = price_in_cents(account.usage, upstream.model.descriptor)
            await account.close()


class _ConnectionAccount:
    """Usage of a connection, charged to the client's budget after each response.

    Attributes:
        usage: Sum of all responses; ``None`` before the first one.
    """

    def __init__(self, grant: Grant | None, record: CallRecord, upstream: Upstream) -> None:
        self._grant = grant
        self._record = record
        self._descriptor = upstream.model.descriptor
        self._reservation: Reservation | None = None
        self.usage: Usage | None = None

    async def open(self) -> None:
        """Reserve the first response. Raises AccessError."""
        await self._reserve(is_paced=True)

    async def charge(self, data: str | bytes) -> None:
        """Charge the usage in a message, if it is the end of a response.

        Raises:
            AccessError: The budget does not suffice for another response.
        """
        usage = _read_usage(data)
        if usage is None:
            return
        self.usage = usage if self.usage is None else self.usage + usage
        if self._reservation is None:
            return
        reservation, self._reservation = self._reservation, None
        await reservation.settle(usage, price_in_cents(usage, self._descriptor))
        # Limits per minute apply to connections: the vendor has its own for responses.
        await self._reserve(is_paced=False)

    def note(self, error: AccessError) -> None:
        """Record why the gateway ends the connection."""
        self._record.error, self._record.detail = error.WORD, str(error)

    async def close(self) -> None:
        """Settle or release the reservation."""
        if self._reservation is None:
            return
        if self.usage is None:
            await self._reservation.settle(None, None)  # there may have been part of a response
        else:
            await self._reservation.release()

    async def _reserve(self, *, is_paced: bool) -> None:
        """Reserve a response, whose usage is unknown until it ends."""
        if self._grant is None:
            return
        demand = Demand(
            model=self._record.model,
            address=self._record.address,
            input_tokens=0,
            output_tokens=0,
            cents=LEAST_CENTS,
            is_paced=is_paced,
        )
        self._reservation = await self._grant.reserve(demand)


async def _connect(upstream: Upstream, call: HttpCall) -> Socket:
    """Connect with the vendor, with its key.

    Raises:
        ConverseError: The model's vendor has no Realtime API, or it refuses the connection.
        DependencyError: The package websockets is not installed.
    """
    model = upstream.model
    ensure_unguarded(model)
    if not is_remote(model) or not isinstance(model.client.vendor, OpenAIService):
        raise UnknownNameError(
            kind="realtime model",
            name=upstream.address,
            detail=f"The vendor of {upstream.address} has no Realtime API.",
            remedy="Use a model of OpenAI or Azure.",
        )
    passed = {name: text for name, text in call.query.items() if name not in _GATEWAY_PARAMETERS}
    query = urlencode({**passed, "model": upstream.name})
    headers = {name: call.headers[name] for name in _PASSED_HEADERS if name in call.headers}
    return await open_socket(model.client, f"/realtime?{query}", headers, model=upstream.name)


async def _relay(vendor: Socket, receive: Receive, send: Send, account: _ConnectionAccount) -> None:
    """Pass messages on in both directions until one side closes."""
    upward = asyncio.create_task(_send_up(vendor, receive))
    downward = asyncio.create_task(_send_down(vendor, send, account))
    try:
        await asyncio.wait({upward, downward}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await vendor.close()
        for task in (upward, downward):
            task.cancel()
        await asyncio.gather(upward, downward, return_exceptions=True)


async def _send_up(vendor: Socket, receive: Receive) -> None:
    with suppress(ClientGone):
        while (message := await receive())["type"] == "websocket.receive":
            text = message.get("text")
            # After the vendor's close, `_send_down` still sends what came before it.
            with suppress(TransportError, LimitError):
                await vendor.send(message["bytes"] if text is None else text)


async def _send_down(vendor: Socket, send: Send, account: _ConnectionAccount) -> None:
    with suppress(ClientGone):
        try:
            while (data := await vendor.receive()) is not None:
                field = "text" if isinstance(data, str) else "bytes"
                await send({"type": "websocket.send", field: data})
                await account.charge(data)
        except AccessError as error:
            account.note(error)
            await send({"type": "websocket.send", "text": _compose_error(error)})
            await send(_compose_close(_POLICY_VIOLATION, str(error)))
            return
        code, reason = vendor.close_frame or (_UPSTREAM_FAILED, "")
        await send(_compose_close(_NORMAL if code == NO_STATUS else code, reason))


def _compose_close(code: int, reason: str) -> dict[str, Any]:
    # The reason of a close frame has at most 123 bytes.
    short = reason.encode()[:123].decode("utf-8", "ignore")
    return {"type": "websocket.close", "code": code, "reason": short}


def _compose_error(error: AccessError) -> str:
    """Return an error as an event of the Realtime API."""
    kind = code = "insufficient_quota"
    if error.fault is ProviderFault.AUTHENTICATION:  # the key was revoked, or has expired
        kind, code = "invalid_request_error", "invalid_api_key"
    fields = {"type": kind, "code": code, "message": str(error)}
    event = {"type": "error", "event_id": f"event_{os.urandom(10).hex()}", "error": fields}
    return json.dumps(event)


def _read_usage(data: str | bytes) -> Usage | None:
    """Return the usage in a message, if it is the end of a response."""
    raw = data.encode() if isinstance(data, str) else data
    if _DONE not in raw:  # few messages are decoded
        return None
    try:
        event = msgspec.json.decode(raw)
    except UNREADABLE:
        return None
    if not isinstance(event, dict) or event.get("type") != "response.done":
        return None
    response = event.get("response")
    native = response.get("usage") if isinstance(response, dict) else None
    if not isinstance(native, dict):
        return None
    return normalize_openai_usage(native, input_name="input_tokens", output_name="output_tokens")
