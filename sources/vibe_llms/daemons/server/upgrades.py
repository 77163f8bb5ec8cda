"""Upgrades of a connection to a WebSocket: the check of the handshake."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from vibe_llms.daemons.server.asgi_types import Scope
from vibe_llms.daemons.server.links import ConnectionLink
from vibe_llms.daemons.server.peers import Peer
from vibe_llms.daemons.server.request_heads import Head
from vibe_llms.daemons.server.requests import MALFORMED, NOT_IMPLEMENTED
from vibe_llms.daemons.server.scopes import compose_scope
from vibe_llms.foundation.optional_packages import advise_extra

if TYPE_CHECKING:
    from vibe_llms.daemons.server.websocket import WebSocket

_logger: Final = logging.getLogger(__name__)


class Upgrade(NamedTuple):
    """Result of a handshake.

    Attributes:
        websocket: The WebSocket; ``None`` if the handshake is refused.
        scope: Its ASGI scope.
        status: Status of the refusal.
    """

    websocket: WebSocket | None
    scope: Scope
    status: int


MALFORMED_UPGRADE: Final = Upgrade(None, {}, MALFORMED)


def begin_upgrade(connection: ConnectionLink, head: Head, peer: Peer) -> Upgrade:
    """Check the handshake of a WebSocket."""
    try:
        # Imported on demand: few users have installed the package, and fewer need it.
        from vibe_llms.daemons.server.websocket import produce_websocket
    except ImportError:
        _logger.warning("WebSockets need an extra. %s", advise_extra("serve", "websockets"))
        return Upgrade(None, {}, NOT_IMPLEMENTED)
    websocket = produce_websocket(connection, head)
    if isinstance(websocket, int):
        return Upgrade(None, {}, websocket)
    scope = compose_scope(head, peer, connection.service.lifespan.state, websocket.watch)
    return Upgrade(websocket, websocket.compose_scope(scope), 0)
