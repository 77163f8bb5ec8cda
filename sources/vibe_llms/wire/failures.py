"""Translation of connection errors.

Foreign messages may have URLs with keys in them. So only the words of the operating system and of
the TLS library are repeated; the causes of translated errors are sanitized, too.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterator
from typing import Final

import msgspec

from vibe_llms.exceptions import (
    ConverseError,
    ForeignError,
    RequestError,
    Stage,
    TransportError,
    TransportTimeoutError,
)
from vibe_llms.wire.exchanges import Timeouts
from vibe_llms.wire.http import faults
from vibe_llms.wire.size_limits import HEADER_BYTES


class Watch(msgspec.Struct, frozen=True, eq=False):
    """Facts about a request, for its errors.

    Attributes:
        begun: Time of its start, by the clock of the event loop.
    """

    address: str
    timeouts: Timeouts
    begun: float


_PHASES = {
    "connect": "No connection to {address} came about",
    "first-byte": "{address} did not answer",
    "between-chunks": "The answer of {address} stalled: nothing came",
    "total": "The whole exchange with {address} was not over",
}


def produce_timeout_error(watch: Watch, phase: str) -> TransportTimeoutError:
    """Produce the error of a timeout."""
    setting = f"{phase.replace('-', '_')}_seconds"
    seconds = getattr(watch.timeouts, setting) or 0
    return TransportTimeoutError(
        detail=f"{_PHASES[phase].format(address=watch.address)} within {seconds:g} seconds.",
        remedy=f"If it only needs longer, raise {setting} of the timeouts.",
        address=watch.address,
        phase=phase,
        seconds=seconds,
        stage={"connect": Stage.CONNECT, "first-byte": Stage.SEND}.get(phase, Stage.FRAME),
    )


def produce_closed_error(address: str) -> TransportError:
    """Produce the error of reading from a closed response."""
    return TransportError(
        detail=f"The answer of {address} was closed before it was read to its end.",
        address=address,
        stage=Stage.FRAME,
    )


def translate(error: Exception, watch: Watch, stage: Stage) -> ConverseError:
    """Translate an error of a connection; its cause is a sanitized copy.

    Args:
        stage: ``SEND`` until the headers have arrived, ``FRAME`` from then on.
    """
    if isinstance(error, ConverseError):
        return error
    ours = _translate_timeout(error, watch, stage) or _translate_rest(error, watch, stage)
    if isinstance(ours, TransportError) and any(map(_is_lasting, walk_chain(error))):
        ours.should_retry = False
    ours.__cause__ = ForeignError(type=type(error).__name__, detail=_find_reason(error))
    return ours


def _translate_timeout(
    error: Exception, watch: Watch, stage: Stage
) -> TransportTimeoutError | None:
    if not isinstance(error, TimeoutError):
        return None
    if isinstance(error, faults.Overdue):
        return produce_timeout_error(watch, error.phase)
    total = watch.timeouts.total_seconds
    elapsed = asyncio.get_running_loop().time() - watch.begun
    if total is not None and elapsed >= total:
        phase = "total"
    elif stage is Stage.FRAME:
        phase = "between-chunks"
    else:
        phase = "first-byte"
    return produce_timeout_error(watch, phase)


def _translate_rest(error: Exception, watch: Watch, stage: Stage) -> ConverseError:
    address = watch.address
    reason = _find_reason(error)
    because = f": {reason}" if reason else ""
    remedy = ""
    match error:
        case faults.Left():
            return produce_closed_error(address)
        case faults.CertificateFault():
            detail = f"The certificate of {address} cannot be trusted{because}."
            remedy = "Where an authority of your own signs, set the certificate authorities."
            stage = Stage.CONNECT
        case faults.TlsFault():
            detail = f"No TLS connection to {address} came about{because}."
            stage = Stage.CONNECT
        case faults.ProxyRefusal():
            detail = f"The proxy refused to connect to {address} (status {error.status})."
            remedy = "Check the proxy and what it wants to know of you."
            stage = Stage.CONNECT
        case faults.ProxyUnreachable():
            detail = f"The proxy on the way to {address} cannot be reached{because}."
            stage = Stage.CONNECT
        case faults.Unreachable():
            detail = f"{address} cannot be reached{because}."
            remedy = "Check the base URL and the network."
            stage = Stage.CONNECT
        case faults.HeadTooLong():
            detail = f"{address} sent a line of headers beyond {HEADER_BYTES:,} bytes, or too many."
        case faults.NotHttp():
            detail = f"{address} did not answer in HTTP."
            remedy = "Check the scheme and the port of the base URL."
        case faults.BodyBroken():
            detail = f"The answer of {address} broke off before its end{because}."
        case faults.UnknownCoding():
            detail = f"{address} packs its answer as {error.name!r}, which was not asked for."
        case OSError():
            had = "before it answered" if stage is Stage.SEND else "in the middle of its answer"
            detail = f"{address} closed the connection {had}{because}."
        case ValueError() | TypeError():
            return RequestError(
                detail=f"The request to {address} cannot be written as HTTP.",
                remedy="Look for letters in its address or headers that may not stand there.",
                path="request",
                stage=Stage.SEND,
            )
        case _:
            detail = f"The exchange with {address} failed ({type(error).__name__})."
    return TransportError(detail=detail, remedy=remedy, address=address, stage=stage)


def walk_chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    for _ in range(8):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__ or seen.__context__


_MENDING_ALERTS: Final = ("INTERNAL_ERROR", "USER_CANCELLED", "BAD_RECORD_MAC")


def _is_lasting(error: BaseException) -> bool:
    """Tell whether a retry fails, too, until a setting or a file changes."""
    if isinstance(error, faults.ProxyRefusal):
        return 400 <= error.status < 500
    if isinstance(error, ssl.SSLError):
        words = f"{error.reason}".upper()
        # The server refuses us by an alert: without a client certificate, the handshake fails
        # with one, in some versions of TLS with a general one.
        refused = "_ALERT_" in words and not words.endswith(_MENDING_ALERTS)
        return refused or "CERTIFICATE" in words
    return isinstance(error, (faults.CertificateFault, faults.UnknownCoding))


def _find_reason(error: BaseException) -> str:
    """Return the message of the operating system or of the TLS library, if there is one."""
    for each in walk_chain(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return each.verify_message
        if isinstance(each, ssl.SSLError):
            return (each.reason or "TLS failed").replace("_", " ").lower()
        if isinstance(each, OSError) and each.strerror:
            # asyncio adds the address to the message.
            is_bare = each.errno is None or not each.strerror.startswith("Connect call failed")
            return each.strerror if is_bare else os.strerror(each.errno or 0)
    return ""
