"""Translation of connection errors.

Messages of other libraries may contain URLs with keys. So only messages of the operating system and
of the TLS library are repeated, and the causes of translated errors are sanitized.
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


class ExchangeFacts(msgspec.Struct, frozen=True, eq=False):
    """Facts about an exchange, for its errors.

    Attributes:
        address: Scheme, host and port of the server.
        timeouts: The timeouts that apply.
        started: When it started, by the clock of the event loop.
    """

    address: str
    timeouts: Timeouts
    started: float


_PHASES = {
    "connect": "Could not connect to {address}",
    "first-byte": "{address} did not answer",
    "between-chunks": "The answer of {address} stalled: no data arrived",
    "total": "The exchange with {address} was not complete",
}


def produce_timeout_error(facts: ExchangeFacts, phase: str) -> TransportTimeoutError:
    """Produce the error of a timeout."""
    setting = f"{phase.replace('-', '_')}_seconds"
    seconds = getattr(facts.timeouts, setting) or 0
    return TransportTimeoutError(
        detail=f"{_PHASES[phase].format(address=facts.address)} within {seconds:g} seconds.",
        remedy=f"If the server needs more time, raise the timeout {setting}.",
        address=facts.address,
        phase=phase,
        seconds=seconds,
        stage={"connect": Stage.CONNECT, "first-byte": Stage.SEND}.get(phase, Stage.FRAME),
    )


def produce_closed_error(address: str) -> TransportError:
    """Produce the error of reading from a closed response."""
    return TransportError(
        detail=f"The answer of {address} was closed before it was completely read.",
        address=address,
        stage=Stage.FRAME,
    )


def translate(error: Exception, facts: ExchangeFacts, stage: Stage) -> ConverseError:
    """Translate an error of a connection; its cause is a sanitized copy.

    Args:
        stage: ``SEND`` until the headers have arrived, ``FRAME`` from then on.
    """
    if isinstance(error, ConverseError):
        return error
    ours = _translate_timeout(error, facts, stage) or _translate_other(error, facts, stage)
    if isinstance(ours, TransportError) and any(map(_is_permanent, walk_chain(error))):
        ours.should_retry = False
    ours.__cause__ = ForeignError(type=type(error).__name__, detail=_find_reason(error))
    return ours


def _translate_timeout(
    error: Exception, facts: ExchangeFacts, stage: Stage
) -> TransportTimeoutError | None:
    if not isinstance(error, TimeoutError):
        return None
    if isinstance(error, faults.TimedOut):
        return produce_timeout_error(facts, error.phase)
    total = facts.timeouts.total_seconds
    elapsed = asyncio.get_running_loop().time() - facts.started
    if total is not None and elapsed >= total:
        phase = "total"
    elif stage is Stage.FRAME:
        phase = "between-chunks"
    else:
        phase = "first-byte"
    return produce_timeout_error(facts, phase)


def _translate_other(error: Exception, facts: ExchangeFacts, stage: Stage) -> ConverseError:
    address = facts.address
    reason = _find_reason(error)
    explanation = f": {reason}" if reason else ""
    remedy = ""
    match error:
        case faults.ClosedByUs():
            return produce_closed_error(address)
        case faults.CertificateFault():
            detail = f"The certificate of {address} cannot be trusted{explanation}."
            remedy = "If your own authority signed it, set the certificate authorities."
            stage = Stage.CONNECT
        case faults.TlsFault():
            detail = f"The TLS handshake with {address} failed{explanation}."
            stage = Stage.CONNECT
        case faults.ProxyRefusal():
            detail = f"The proxy refused to connect to {address} (status {error.status})."
            remedy = "Check the proxy, and whether it needs a user and password."
            stage = Stage.CONNECT
        case faults.ProxyUnreachable():
            detail = f"The proxy on the way to {address} cannot be reached{explanation}."
            stage = Stage.CONNECT
        case faults.Unreachable():
            detail = f"{address} cannot be reached{explanation}."
            remedy = "Check the base URL and the network."
            stage = Stage.CONNECT
        case faults.HeadTooLong():
            detail = f"{address} sent too many headers, or one of more than {HEADER_BYTES:,} bytes."
        case faults.NotHttp():
            detail = f"{address} did not answer in HTTP."
            remedy = "Check the scheme and the port of the base URL."
        case faults.BodyBroken():
            detail = f"The answer of {address} broke off before its end{explanation}."
        case faults.UnknownCoding():
            detail = (
                f"{address} compresses its answer with {error.name!r}, which was not requested."
            )
        case OSError():
            when = "before it answered" if stage is Stage.SEND else "in the middle of its answer"
            detail = f"{address} closed the connection {when}{explanation}."
        case ValueError() | TypeError():
            return RequestError(
                detail=f"The request to {address} is not valid HTTP.",
                remedy="Check its URL and headers for invalid characters.",
                path="request",
                stage=Stage.SEND,
            )
        case _:
            detail = f"The exchange with {address} failed ({type(error).__name__})."
    return TransportError(detail=detail, remedy=remedy, address=address, stage=stage)


def walk_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, at most 8."""
    current: BaseException | None = error
    for _ in range(8):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__


_TEMPORARY_ALERTS: Final = ("INTERNAL_ERROR", "USER_CANCELLED", "BAD_RECORD_MAC")


def _is_permanent(error: BaseException) -> bool:
    """Return whether a retry would also fail, until a setting or a file changes."""
    if isinstance(error, faults.ProxyRefusal):
        return 400 <= error.status < 500
    if isinstance(error, ssl.SSLError):
        reason = f"{error.reason}".upper()
        # The server rejects us with an alert, for example because of a missing client certificate;
        # in some versions of TLS, that alert is a general one.
        is_rejection = "_ALERT_" in reason and not reason.endswith(_TEMPORARY_ALERTS)
        return is_rejection or "CERTIFICATE" in reason
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
