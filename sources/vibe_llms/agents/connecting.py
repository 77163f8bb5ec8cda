"""One agents daemon, asked over HTTP: what goes there, and what its answers and errors mean."""

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
from vibe_llms.providers.bodies import encode_body
from vibe_llms.providers.borders import clean_error
from vibe_llms.providers.credentials import ensure_key
from vibe_llms.providers.retries import RetryPolicy
from vibe_llms.wire.bodies import describe_address
from vibe_llms.wire.exchanges import Exchange, Timeouts, Transport, WireRequest

KEY_VARIABLE: Final = "VIBE_AGENTS_KEY"
"""The variable of the environment with the key of an agents daemon."""

_STREAM_TIMEOUTS: Final = Timeouts(
    first_byte_seconds=60, between_chunks_seconds=60, total_seconds=None
)
"""A daemon that has nothing to tell says so every fifteen seconds or so."""

_GONE: Final = frozenset({502, 503, 504})
"""What says whoever stands before a daemon that is not there now."""

_NOT_FOUND: Final = 404
_TAILS: Final = ("/runs", "/page")
"""Of addresses that are shown: what is asked there, and not where the daemon is."""

_REMEDY: Final = "Check the address: it must be that of `vibe serve agents`."
_Value = TypeVar("_Value")


@define
class Connection(Closing):
    """Asks one agents daemon.

    Attributes:
        address: Where it is, without a slash at its end.
        limits: What requests and answers may hold, and how often a request may be sent.
        clock: Waits between two attempts.

    Args:
        key: Says who asks.
        transport: Carries what is asked; by default connections of its own. It is closed here.
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
        """Asks for something, and reads the answer as a value of a class.

        Args:
            is_repeatable: Whether it does no harm to ask twice; then it is asked again where an
                answer was lost. What was not sent at all is sent again in any case.

        Raises:
            ConverseError: As the daemon tells it, of the same class; or it cannot be reached, or
                is no agents daemon.
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
        """Sends a request, once, and returns an answer that is no error.

        Raises:
            ConverseError: As of :meth:`ask`.
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
        """Takes the key out of an error, should the other side have sent it back."""
        return clean_error(error, [] if self._key is None else [self._key])

    def refuse(self, asked: str, detail: str) -> ConverseError:
        """Produces the error of an answer that no agents daemon would give."""
        place = describe_address(self.address) + urlsplit(self.address).path
        return ConverseError(
            detail=f"{place} is not an agents daemon: {asked} {detail}.",
            remedy=self._advise() or _REMEDY,
            stage=Stage.DECODE,
        )

    def _advise(self) -> str:
        """Says what of the address is too much; nothing where it may be right."""
        path = urlsplit(self.address).path
        tail = next((each for each in _TAILS if path.endswith(each)), "")
        return f"Remove {tail} from the daemon's address." if tail else ""

    async def close(self) -> None:
        """Closes the connections. May be called again."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    def _access_transport(self) -> Transport:
        if self._transport is None:
            from vibe_llms.wire.direct import DirectTransport

            # An event stream goes on for as long as it is watched; other answers are bounded above.
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

    def _decode(self, kind: type[_Value], data: bytes, asked: str) -> _Value:
        try:
            return msgspec.json.decode(data, type=kind)
        except (*UNREADABLE, ValueError) as error:
            cause = str(error)
        raise self.clean(self.refuse(asked, f"returned an invalid body ({cause})"))

    async def _read_error(self, exchange: Exchange, asked: str) -> ConverseError:
        """Returns what an answer with the status of an error means."""
        status = exchange.status
        async with exchange:
            data = await exchange.read(self.limits.event_bytes)
        told = _read_told(data)
        if told is None and status in _GONE:
            return TransportError(
                detail=f"{describe_address(self.address)} answered with status {status}.",
                address=describe_address(self.address),
                stage=Stage.SEND,
            )
        if told is None:
            return self.refuse(asked, f"answered with status {status}")
        try:
            error = read_error(told)
        except CodecError:
            return self.refuse(asked, f"answered with status {status}")
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
    """Makes what asks a daemon; connects to nothing yet.

    Raises:
        ConfigurationError: The address is none, or the key is none.
    """
    parts = urlsplit(address) if describe_address(address) else None
    if parts is None or parts.query or parts.fragment:
        shown = address.partition("?")[0].partition("#")[0].rpartition("@")[2]
        raise ConfigurationError.at(
            "address",
            f"Invalid address of an agents daemon: {shown!r}. Write it as "
            "https://example.org, without a part after ? or #.",
        )
    given = os.environ.get(KEY_VARIABLE) or None if key is None else key
    secret = Secret(given) if isinstance(given, str) else given
    place = f"the variable {KEY_VARIABLE}" if key is None else "key"
    return Connection(
        address=address.rstrip("/"),
        limits=limits or Limits(),
        clock=clock or Clock(),
        key=None if secret is None else ensure_key(secret, place),
        transport=transport,
    )


def _read_told(data: bytes) -> dict[str, Any] | None:
    """Returns an error as a daemon of ours tells it; ``None`` where it is another's."""
    try:
        told = msgspec.json.decode(data)["error"]
        stage = told["stage"]
        said = {"error": told["code"], "message": told["message"]}
    except (*UNREADABLE, LookupError, TypeError):
        return None
    facts = told.get("facts", {"detail": told["message"]})
    return {**said, "stage": stage or str(Stage.EXECUTE), "facts": facts}
