"""Ports for servers that other processes start."""

from __future__ import annotations

import random
import socket

_PORTS = range(20_000, 32_768)
"""Below the ports that Linux gives to clients, and to servers that ask for any free port.

Between the choice of a port and its use, and while a server is restarted, nobody else gets it.
"""

_chooser = random.SystemRandom()  # not the seed of the run, which all processes of a run share
_chosen: set[int] = set()


def find_port() -> int:
    """Return a port that is free on all addresses, each time another one."""
    while True:
        port = _chooser.choice(_PORTS)
        if port in _chosen:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        _chosen.add(port)
        return port
