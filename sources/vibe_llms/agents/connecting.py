"""HTTP connection to an agents daemon: its requests, answers and errors."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import attrs
import msgspec

from vibe_llms.exceptions import (
    AccessError,
    CodecError,
    ConfigurationError,
    ConverseError,
    ProviderError,
    ProviderFault,
    Stage,
    TransportError,
)
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Secret
from vibe_llms.messages.codec.errors import read_error
from vibe_llms.providers.credentials import ensure_key
from vibe_llms.providers.request_encoding import encode_body
from vibe_llms.providers.retries import RetryPolicy
from vibe_llms.providers.sanitization import clean_error
from vibe_llms.wire.exchanges import Exchange, Timeouts, Transport, WireRequest
from vibe_llms.wire.size_limits import describe_address

KEY_VARIABLE: Final = "VIBE_AGENTS_KEY"
"""Environment variable with the key of an agents daemon."""

_STREAM_TIMEOUTS: Final = Timeouts(
    first_byte_seconds=60, between_chunks_seconds=60, total_seconds=None
)
"""Timeouts of event streams; an idle daemon sends a keep-alive about every 15 seconds."""

_UNAVAILABLE: Final = frozenset({502, 503, 504})
"""Statuses of a proxy in front of an unavailable daemon."""

_NOT_FOUND: Final = 404
_RESOURCE_SUFFIXES: Final = ("/runs", "/page")
"""Ends of addresses that users copy from the daemon's output, and that name a resource of it."""

_REMEDY: Final = "Check the address: it must be that of `vibe serve agents`."
_Value = TypeVar("_Value")


@define
class Connection(Closing):
    """HTTP connection to one agents daemon.

    Attributes:
        address: URL of the daemon, without a trailing slash.
        limits: Size limits of requests and answers, and the number of attempts.
        clock: Clock for the pauses between attempts.

    Args:
        key: Key that identifies the caller.
        transport: Transport of the requests; by default a new one. It is closed with this.
    """

    address: str
    limits: Limits
    clock: Clock
    _key: Secret | None
    _transport: Transport | None = None
    _draw: Callable[[], float] = random.random

    async def ask(
        self,
        kind: type[_Value],
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        is_repeatable: bool = False,
    ) -> _Value:
        """Send a request, and read the answer as a value of a class.

        Args:
            is_repeatable: Whether the request is idempotent, so that it is repeated if an answer
                was lost. A request that was not sent at all is always retried.

        Raises:
            ConverseError: The error from the daemon, of the same class; or the daemon is
                unreachable, or is not an agents daemon.
        """
        policy, attempt = RetryPolicy.of(self.limits), 1
        while True:
            try:
                async with await self.send(method, path, body, headers=headers) as exchange:
                    data = await exchange.read(self.limits.response_bytes)
                return self._decode(kind, data, f"{method} {path.partition('?')[0]}")
            except ConverseError as error:
                may_repeat = is_repeatable or error.stage is Stage.CONNECT
                wait = policy.decide(error, attempt, self._draw()) if may_repeat else None
                if wait is None:
                    raise
            attempt += 1
            await self.clock.sleep(wait)

    async def send(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        is_stream: bool = False,
    ) -> Exchange:
        """Send a request once, and return its answer if that is not an error.

        Raises:
            ConverseError: See :meth:`ask`.
        """
        request = WireRequest(
            method=method,
            url=self.address + path,
            headers=self._compose_headers(body is not None, headers or {}),
            body=b"" if body is None else encode_body(body),
            timeouts=_STREAM_TIMEOUTS if is_stream else None,
        )
        try:
            exchange = await self._access_transport().send(request)
            if exchange.status < 400:
                return exchange
            raise await self._read_error(exchange, f"{method} {path.partition('?')[0]}")
        except ConverseError as error:
            raise self.clean(error)  # noqa: B904  # it is the same error

    def clean(self, error: ConverseError) -> ConverseError:
        """Redact the key in an error, in case the daemon has sent it back."""
        return clean_error(error, [] if self._key is None else [self._key])

    def refuse(self, request_line: str, detail: str) -> ConverseError:
        """Produce the error that the server at the address is not an agents daemon."""
        place = describe_address(self.address) + urlsplit(self.address).path
        return ConverseError(
            detail=f"{place} is not an agents daemon: {request_line} {detail}.",
            remedy=self._advise() or _REMEDY,
            stage=Stage.DECODE,
        )

    def _advise(self) -> str:
        """Return advice to remove the end of the address; empty if the address may be right."""
        path = urlsplit(self.address).path
        suffix = next((each for each in _RESOURCE_SUFFIXES if path.endswith(each)), "")
        return f"Remove {suffix} from the daemon's address." if suffix else ""

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    def _access_transport(self) -> Transport:
        if self._transport is None:
            from vibe_llms.wire.direct import DirectTransport

            # No limit here, because an event stream may have any length; the methods of this class
            # limit all other answers.
            self._transport = DirectTransport(
                limits=attrs.evolve(self.limits, response_bytes=sys.maxsize)
            )
        return self._transport

    def _compose_headers(self, has_body: bool, more: Mapping[str, str]) -> dict[str, str | Secret]:
        headers: dict[str, str | Secret] = {"accept": "*/*", **more}
        if has_body:
            headers["content-type"] = "application/json"
        if self._key is not None:
            headers["authorization"] = Secret(f"Bearer {self._key.reveal()}")
        return headers

    def _decode(self, kind: type[_Value], data: bytes, request_line: str) -> _Value:
        try:
            return msgspec.json.decode(data, type=kind)
        except (*UNREADABLE, ValueError) as error:
            cause = str(error)
        raise self.clean(self.refuse(request_line, f"returned an invalid body ({cause})"))

    async def _read_error(self, exchange: Exchange, request_line: str) -> ConverseError:
        """Return the error for an answer with an error status."""
        status = exchange.status
        async with exchange:
            data = await exchange.read(self.limits.event_bytes)
        document = _read_document(data)
        if document is None and status in _UNAVAILABLE:
            return TransportError(
                detail=f"{describe_address(self.address)} answered with status {status}.",
                address=describe_address(self.address),
                stage=Stage.SEND,
            )
        if document is None:
            return self.refuse(request_line, f"answered with status {status}")
        try:
            error = read_error(document)
        except CodecError:
            return self.refuse(request_line, f"answered with status {status}")
        if (
            isinstance(error, AccessError | ProviderError)
            and error.fault is ProviderFault.AUTHENTICATION
        ):
            advice = error.remedy or "Use a key that the daemon accepts."
            error.remedy = f"{advice} Set it in {KEY_VARIABLE}."
        if status == _NOT_FOUND:
            error.remedy = self._advise() or error.remedy
        return error


def produce_connection(
    address: str,
    *,
    key: str | Secret | None = None,
    limits: Limits | None = None,
    transport: Transport | None = None,
    clock: Clock | None = None,
) -> Connection:
    """Produce a connection to a daemon; it connects with the first request.

    Raises:
        ConfigurationError: The address or the key is invalid.
    """
    parts = urlsplit(address) if describe_address(address) else None
    if parts is None or parts.query or parts.fragment:
        shown = address.partition("?")[0].partition("#")[0].rpartition("@")[2]
        raise ConfigurationError.at(
            "address",
            f"Invalid address of an agents daemon: {shown!r}. Write it as "
            "https://example.org, without a part after ? or #.",
        )
    place = "key"
    if key is None:
        place = f"the variable {KEY_VARIABLE}"
        key = os.environ.get(KEY_VARIABLE) or None  # an empty variable is the same as none
    secret = Secret(key) if isinstance(key, str) else key
    return Connection(
        address=address.rstrip("/"),
        limits=limits or Limits(),
        clock=clock or Clock(),
        key=None if secret is None else ensure_key(secret, place),
        transport=transport,
    )


def _read_document(data: bytes) -> dict[str, Any] | None:
    """Return an error in the format of an agents daemon; ``None`` for other formats."""
    try:
        document = msgspec.json.decode(data)["error"]
        stage = document["stage"]
        head = {"error": document["code"], "message": document["message"]}
    except (*UNREADABLE, LookupError, TypeError):
        return None
    facts = document.get("facts", {"detail": document["message"]})
    return {**head, "stage": stage or str(Stage.EXECUTE), "facts": facts}
