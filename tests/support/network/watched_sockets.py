"""Recorder of the connections that processes open, by an audit hook of Python."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_PROGRAM: Final = """
import os, sys

sys.modules["uvloop"] = None  # its connections cause no audit events
_PATH = os.environ["WATCHED_SOCKETS"]


def _record(event, arguments):
    if event in ("socket.connect", "socket.sendto"):
        line = f"{os.getpid()} {arguments[1]!r}\\n".encode()
        descriptor = os.open(_PATH, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, line)
        os.close(descriptor)


sys.addaudithook(_record)
"""


def watch_sockets(folder: Path) -> dict[str, str]:
    """Return environment variables that make Python programs record their connections."""
    (folder / "sitecustomize.py").write_text(_PROGRAM, encoding="utf-8")
    return {"PYTHONPATH": str(folder), "WATCHED_SOCKETS": str(folder / "connected")}


def read_ports(folder: Path) -> dict[int, set[int]]:
    """Return the ports of this machine that each process connected to.

    Raises:
        AssertionError: A process connected to another machine.
    """
    ports: dict[int, set[int]] = {}
    for line in (folder / "connected").read_text(encoding="utf-8").splitlines():
        process, _, address = line.partition(" ")
        found = re.match(r"\('(127\.0\.0\.1|::1)', (\d+)", address)
        assert found, f"{process} connected to {address}"
        ports.setdefault(int(process), set()).add(int(found[2]))
    return ports
