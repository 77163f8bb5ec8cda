"""Interface of a connection for its requests and WebSockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio

    from vibe_llms.daemons.server.service import ServedApplication


class ConnectionLink(Protocol):
    """Connection of a client; see :class:`.connection.IncomingConnection`.

    Attributes:
        service: Shared state of all connections of a server.
        transport: Transport of the event loop.
        is_reading_paused: Whether reading is paused, because much is buffered.
        is_writing_paused: Whether the client does not read sent data.
    """

    service: ServedApplication
    transport: asyncio.Transport
    is_reading_paused: bool
    is_writing_paused: bool

    def send_continue(self) -> None:
        """Send ``100 Continue``, so that the client sends the body."""

    def start_body_timeout(self) -> None:
        """Start the timeout of the body."""

    def adjust_reading(self) -> None:
        """Pause or resume reading, depending on buffered data."""

    def set_reading_paused(self, must_pause: bool) -> None:
        """Pause or resume reading."""

    async def wait_until_writable(self, exchange: Any) -> None:
        """Wait while the client does not read sent data. Raises ClientGone."""

    def conclude(self, exchange: Any) -> None:
        """Start the next request: this answer is complete."""

    def fail(self, exchange: Any, status: int) -> None:
        """End an answer that failed."""

    def send_last(self, response: bytes) -> None:
        """Write the last response and close."""

    def shut(self) -> None:
        """Close once the client has read all output."""
