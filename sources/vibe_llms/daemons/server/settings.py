"""Settings of the ``[server]`` table of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, TypeVar

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import Count, Seconds
from vibe_llms.tables.kinds import bound
from vibe_llms.tables.reading import read_table, require

PORT = bound("a port, from 0 (any that is free) to 65535", 0, 65_535)
GATEWAY_PORT: Final = 8_000
AGENTS_PORT: Final = 8_010
TOOLS_PORT: Final = 8_020
"""Default ports of the daemons, chosen so that all three can run on one machine."""

WORKERS = bound("a whole number from 1 to 1024", 1, 1_024)
HEADER_BYTES = bound("a whole number from 1024 to 1048576", 1_024, 1_048_576)


@frozen(kw_only=True)
class ServerSettings:
    """Settings of a server: address, access, and limits of each connection.

    Counts apply to each worker process.

    Attributes:
        host: Host name or address; beyond loopback only with TLS and authentication, or with
            ``insecure``.
        port: Port; 0 for any free one. By default, the gateway has 8000, the agents daemon 8010,
            and the tools daemon 8020.
        insecure: Allow access by anyone, from anywhere, without encryption.
        certificate: File with the certificate and its chain, in PEM; enables TLS, and disables
            connections without TLS.
        key: File with the certificate's private key, if separate; unencrypted.
        client_authorities: Authorities whose certificates clients must have (mutual TLS).
        workers: Number of processes that serve the port.
        connections: Maximum number of connections at once. A further connection replaces the
            connection whose client has been idle for the longest time; if all connections are busy,
            the further one is answered with 503.
        backlog: Number of connections that the system queues before they are accepted.
        header_bytes: Maximum size of a request line and its headers together.
        head_seconds: Timeout for receiving these, and for the TLS handshake.
        body_seconds: Timeout for receiving a body. The timeout is suspended while the application
            does not read the body, or has not yet asked for it (``100-continue``).
        idle_seconds: Timeout for a client's inactivity: between requests, or while it does not read
            an answer.
        total_seconds: Timeout for answering one request, for any application. A daemon's own
            timeout is shorter, and reports to its clients what took too long.
        message_bytes: Maximum size of a WebSocket message.
        drain_seconds: Time that active requests may continue when the server shuts down.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, PORT] = GATEWAY_PORT
    insecure: bool = False
    certificate: Path | None = None
    key: Path | None = None
    client_authorities: Path | None = None
    workers: Annotated[int, WORKERS] = 1
    connections: Count = 4_096
    backlog: Count = 1_024
    header_bytes: Annotated[int, HEADER_BYTES] = 65_536
    head_seconds: Seconds = 20.0
    body_seconds: Seconds = 300.0
    idle_seconds: Seconds = 75.0
    total_seconds: Seconds = 7_500.0
    message_bytes: Count = 67_108_864
    drain_seconds: Seconds = 30.0

    def __attrs_post_init__(self) -> None:
        require(self, "server")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between fields: the name of a field, and a sentence."""
        if self.certificate is None:
            for name in ("key", "client_authorities"):
                if getattr(self, name) is not None:
                    yield name, "client_authorities needs a certificate: set certificate, too."


_Settings = TypeVar("_Settings", bound=ServerSettings)


def override(settings: _Settings, values: Mapping[str, object]) -> _Settings:
    """Return settings with some values replaced, as by a command line.

    Args:
        settings: Settings of a daemon, with the daemon's default port.
        values: Values by field names; ``None`` for settings that stay unchanged.

    Raises:
        ConfigurationError: The settings are invalid; names all faults.
    """
    new = {name: value for name, value in values.items() if value is not None}
    previous = {
        field.name: getattr(settings, field.name)
        for field in settings.__attrs_attrs__
        if getattr(settings, field.name) != field.default
    }
    return read_table(type(settings), {**previous, **new}, "server")
