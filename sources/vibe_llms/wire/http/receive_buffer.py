"""Shared receive buffer for connections of clients and servers."""

from __future__ import annotations

import threading
from typing import Final

_READ_BYTES: Final = 262_144
"""Size of one read, as in asyncio."""


class _Reading(threading.local):
    """Receive buffer, one for all connections of a thread.

    A connection copies its bytes before the next read. If asyncio allocated a buffer for each read,
    that would cost more than the rest of a small response, as the system maps and unmaps pages
    that are hardly used.
    """

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(_READ_BYTES))


reading: Final = _Reading()
"""Copy the bytes out of its ``buffer`` before returning to the event loop."""
