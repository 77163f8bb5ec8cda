"""Classes of connection errors. They contain no data that were sent or received."""

from __future__ import annotations


class Unreachable(ConnectionError):
    """The server is unreachable."""


class ProxyUnreachable(ConnectionError):
    """The proxy is unreachable, or is not a proxy."""


class ProxyRefusal(ConnectionError):
    """The proxy refused to connect to the server.

    Args:
        status: The HTTP status of its answer.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class CertificateFault(ConnectionError):
    """The certificate of the server or proxy is invalid."""


class TlsFault(ConnectionError):
    """The TLS handshake failed."""


class TimedOut(TimeoutError):
    """A timeout expired.

    Args:
        phase: ``connect``, ``first-byte``, ``between-chunks`` or ``total``.
    """

    def __init__(self, phase: str) -> None:
        super().__init__(phase)
        self.phase = phase


class ClosedByUs(ConnectionError):
    """Error of a connection that this side has closed."""


class HeadTooLong(ConnectionError):
    """The headers exceed a size limit."""


class NotHttp(ConnectionError):
    """The bytes received are not HTTP."""


class BodyBroken(ConnectionError):
    """The body is truncated or damaged."""


class UnknownCoding(ConnectionError):
    """The body has a content coding that was not requested.

    Args:
        name: The name of the coding.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
