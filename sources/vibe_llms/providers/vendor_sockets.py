"""WebSockets to vendors, with key, headers and errors as for other requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vibe_llms.exceptions import ConverseError
from vibe_llms.providers.rates import Ticket
from vibe_llms.providers.sources import decode_problem
from vibe_llms.providers.transports import produce_direct
from vibe_llms.providers.vendor_errors import produce_error
from vibe_llms.wire.sockets import Socket, SocketRefusal

if TYPE_CHECKING:
    from vibe_llms.providers.vendors import VendorClient


async def open_socket(
    client: VendorClient,
    path: str,
    headers: Mapping[str, str] | None = None,
    *,
    model: str = "",
    ticket: Ticket | None = None,
) -> Socket:
    """Open a WebSocket, once.

    The connection is direct, whatever the transport of the provider is: only that has WebSockets.

    Args:
        path: Path after the base URL, with its query.
        headers: Further headers; those of the provider override them.
        model: The model, for errors.
        ticket: Ticket of the rate limiter, which decides when to connect.

    Raises:
        ConverseError: The vendor is unreachable, or refuses the connection.
    """
    vendor = client.vendor
    try:
        request = client.compose("GET", path, None, None, headers)
        if ticket is not None:
            await ticket.acquire(0)
        try:
            return await produce_direct(vendor.context, vendor.settings).open_socket(request)
        except SocketRefusal as refusal:
            problem = decode_problem(refusal.body)
            status, received = refusal.status, refusal.headers
        raise produce_error(client, problem, model, request.url, status, received)
    except ConverseError as error:
        raise client.clean(error)  # noqa: B904  # it is the same error
