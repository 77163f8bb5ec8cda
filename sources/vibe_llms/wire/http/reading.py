"""Where connections read into, those of clients and of servers."""

from __future__ import annotations

import threading
from typing import Final

_READ_BYTES: Final = 262_144
"""How much is read at once, as asyncio does."""


class _Reading(threading.local):
    """What is read into: one buffer for all connections of a thread.

    What has come is taken out before anything else is read. To let asyncio make new bytes for each
    read costs more than all else on the way of a small answer: so many, of which few are used, the
    system gives page by page, and takes back.
    """

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(_READ_BYTES))


reading: Final = _Reading()
"""Whoever reads takes what has come out of its ``buffer`` before it returns to the event loop."""
