"""Kinds of connection errors, without any data that were sent or received."""

from __future__ import annotations


class Unreachable(ConnectionError):
    """The server is unreachable."""


class ProxyUnreachable(ConnectionError):
    """The proxy is not there, or is none."""


class ProxyRefusal(ConnectionError):
    """The proxy does not let us through.

    Args:
        status: What it answered.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class CertificateFault(ConnectionError):
    """The other side's certificate does not hold."""


class TlsFault(ConnectionError):
    """No TLS came about."""


class Overdue(TimeoutError):
    """The other side took too long.

    Args:
        phase: ``connect``, ``first-byte``, ``between-chunks`` or ``total``.
    """

    def __init__(self, phase: str) -> None:
        super().__init__(phase)
        self.phase = phase


class Left(ConnectionError):
    """We left the answer ourselves."""


class HeadTooLong(ConnectionError):
    """The headers are longer than any are, or too many."""


class NotHttp(ConnectionError):
    """The bytes received are not HTTP."""


class BodyBroken(ConnectionError):
    """The body ended before its end, or is damaged."""


class UnknownCoding(ConnectionError):
    """The body is packed in a way that was not asked for.

    Args:
        name: Of the way.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
