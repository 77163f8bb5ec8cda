"""OpenAI's Realtime API: the client's WebSocket is connected with the vendor's, unchanged.

Messages go through in both directions. The usage in ``response.done`` is added up, for the record,
the metrics and the client's budget.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import msgspec

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.estimating import price_in_cents
from vibe_llms.daemons.gateway.gateway import Gateway, ensure_admitted
from vibe_llms.daemons.gateway.upstreams import Upstream, is_remote
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.server.asgi_types import ClientGone, Receive, Scope, Send
from vibe_llms.daemons.service import Service, generate_request_id
from vibe_llms.dialects.openai_usage import normalize_openai_usage
from vibe_llms.exceptions import ConverseError, UnknownNameError
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.optional_packages import needing
from vibe_llms.foundation.secrets import Secret
from vibe_llms.messages.canisters import Usage
from vibe_llms.plugins.specification.daemons import Demand, Grant, Reservation
from vibe_llms.providers.openai_service import OpenAIService

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

PATH: Final = "/v1/realtime"

_CONNECT_SECONDS: Final = 20.0
# Close codes of RFC 6455.
_POLICY_VIOLATION: Final = 1008
_UPSTREAM_FAILED: Final = 1011
_NORMAL: Final = 1000
_NO_STATUS: Final = 1005

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
        reservation = await _reserve(grant, record)
        tally = _UsageTally()
        try:
            async with await _connect(upstream, call) as vendor:
                record.status = 101
                await send({"type": "websocket.accept"})
                await _relay(vendor, receive, send, tally)
        finally:
            record.usage = tally.usage
            record.cents = price_in_cents(tally.usage, upstream.model.descriptor)
            if reservation is not None:
                await reservation.settle(tally.usage, record.cents)


async def _reserve(grant: Grant | None, record: CallRecord) -> Reservation | None:
    """Reserve the connection: its usage is unknown until it ends."""
    if grant is None:
        return None
    demand = Demand(
        model=record.model,
        address=record.address,
        input_tokens=0,
        output_tokens=0,
        cents=Decimal(0),
    )
    return await grant.reserve(demand)


async def _connect(upstream: Upstream, call: HttpCall) -> ClientConnection:
    """Connect with the vendor, with its key.

    Raises:
        ConverseError: The model's vendor has no Realtime API, or it refuses the connection.
        DependencyError: The package websockets is not installed.
    """
    model = upstream.model
    if not is_remote(model) or not isinstance(model.client.vendor, OpenAIService):
        raise UnknownNameError(
            kind="realtime model",
            name=upstream.address,
            detail=f"The vendor of {upstream.address} has no Realtime API.",
            remedy="Use a model of OpenAI or Azure.",
        )
    with needing("serve", "websockets", "The Realtime API"):
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException

    vendor = model.client.vendor
    passed = {name: text for name, text in call.query.items() if name not in _GATEWAY_PARAMETERS}
    query = urlencode({**passed, "model": upstream.name})
    base = vendor.settings.base_url.replace("http", "ws", 1)
    headers: dict[str, str | Secret] = {
        **{name: call.headers[name] for name in _PASSED_HEADERS if name in call.headers},
        **vendor.compose_headers(model.client.require_key(), {}),
        **vendor.settings.headers,
    }
    sent = {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in headers.items()
        if name.lower() not in ("content-type", "accept")
    }
    try:
        return await connect(
            f"{base}/realtime?{query}",
            additional_headers=sent,
            max_size=None,
            open_timeout=_CONNECT_SECONDS,
        )
    except (OSError, WebSocketException, TimeoutError) as error:
        detail = f"Cannot connect with {upstream.address}: {type(error).__name__}: {error}."
        raise model.client.clean(ConverseError(detail=detail)) from None


async def _relay(
    vendor: ClientConnection, receive: Receive, send: Send, tally: _UsageTally
) -> None:
    """Pass messages on in both directions until one side closes."""
    upward = asyncio.create_task(_send_up(vendor, receive))
    downward = asyncio.create_task(_send_down(vendor, send, tally))
    try:
        await asyncio.wait({upward, downward}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await vendor.close()
        for task in (upward, downward):
            task.cancel()
        await asyncio.gather(upward, downward, return_exceptions=True)


async def _send_up(vendor: ClientConnection, receive: Receive) -> None:
    from websockets.exceptions import ConnectionClosed

    with suppress(ClientGone):
        while (message := await receive())["type"] == "websocket.receive":
            text = message.get("text")
            # After the vendor's close, `_send_down` still sends what came before it.
            with suppress(ConnectionClosed):
                await vendor.send(message["bytes"] if text is None else text)


async def _send_down(vendor: ClientConnection, send: Send, tally: _UsageTally) -> None:
    from websockets.exceptions import ConnectionClosed

    with suppress(ClientGone):
        try:
            while True:
                data = await vendor.recv()
                tally.read(data)
                field = "text" if isinstance(data, str) else "bytes"
                await send({"type": "websocket.send", field: data})
        except ConnectionClosed as closed:
            frame = closed.rcvd
            code = _UPSTREAM_FAILED if frame is None else frame.code
            if code == _NO_STATUS:  # it is for programs, and never sent
                code = _NORMAL
            await send(_compose_close(code, "" if frame is None else frame.reason))


def _compose_close(code: int, reason: str) -> dict[str, Any]:
    # The reason of a close frame has at most 123 bytes.
    short = reason.encode()[:123].decode("utf-8", "ignore")
    return {"type": "websocket.close", "code": code, "reason": short}


class _UsageTally:
    """Sum of the usage of a connection's responses."""

    def __init__(self) -> None:
        self.usage: Usage | None = None

    def read(self, data: str | bytes) -> None:
        """Add the usage of a message, if it is the end of a response."""
        raw = data.encode() if isinstance(data, str) else data
        if _DONE not in raw:  # few messages are decoded
            return
        try:
            event = msgspec.json.decode(raw)
        except UNREADABLE:
            return
        if not isinstance(event, dict) or event.get("type") != "response.done":
            return
        response = event.get("response")
        native = response.get("usage") if isinstance(response, dict) else None
        if isinstance(native, dict):
            usage = normalize_openai_usage(
                native, input_name="input_tokens", output_name="output_tokens"
            )
            self.usage = usage if self.usage is None else self.usage + usage
