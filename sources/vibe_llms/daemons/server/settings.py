"""What the ``[server]`` table of a file may say."""

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
"""Where each daemon listens by default, so that all three can run on one machine."""

WORKERS = bound("a whole number from 1 to 1024", 1, 1_024)
HEADER_BYTES = bound("a whole number from 1024 to 1048576", 1_024, 1_048_576)


@frozen(kw_only=True)
class ServerSettings:
    """Where a server listens, who is let in, and what each connection may take.

    Counts hold for each worker process.

    Attributes:
        host: A name or an address; wider than loopback only with TLS or somebody who lets in, or
            where ``insecure`` says it, too.
        port: 0 for any that is free; by default the gateway has 8000, the agents daemon 8010, and
            the tools daemon 8020.
        insecure: Let everybody in, from everywhere, and send everything in the clear.
        certificate: With the chain that leads to it, in PEM; then TLS alone is spoken.
        key: Of the certificate, where it is in another file; unencrypted.
        client_authorities: Whose certificates clients must have (mutual TLS).
        workers: How many processes serve the port.
        connections: How many are served at once. For one more, that goes whose client has asked
            nothing for the longest time; where all are being answered, it is answered 503.
        backlog: How many the system lets wait to be taken.
        header_bytes: The first line of a request and its headers together.
        head_seconds: How long these may take to come in, and the handshake of TLS.
        body_seconds: The same for a body; it does not count while the application reads none of
            it, or has not invited it (``100-continue``).
        idle_seconds: How long nothing may move where it is the client's turn: between requests,
            or while it does not take an answer.
        total_seconds: How long answering one request may take, whatever serves it; a daemon's
            own limit is shorter, and says in the words of its clients what has taken too long.
        message_bytes: One message of a WebSocket.
        drain_seconds: How long requests under way may go on when the server ends.
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
        """Yields what does not hold between the fields: the name of one, and a sentence."""
        if self.certificate is None:
            for name in ("key", "client_authorities"):
                if getattr(self, name) is not None:
                    yield name, "client_authorities needs a certificate: set certificate, too."


_Settings = TypeVar("_Settings", bound=ServerSettings)


def override(settings: _Settings, given: Mapping[str, object]) -> _Settings:
    """Returns settings of which some are replaced, as a command line does.

    Args:
        settings: Those of a daemon, whose own port stays its own.
        given: By the names of the fields; what is ``None`` was not said.

    Raises:
        ConfigurationError: With all that does not hold.
    """
    said = {name: value for name, value in given.items() if value is not None}
    kept = {
        field.name: getattr(settings, field.name)
        for field in settings.__attrs_attrs__
        if getattr(settings, field.name) != field.default
    }
    return read_table(type(settings), {**kept, **said}, "server")
